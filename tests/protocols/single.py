"""One protocol object under test, without a network: call a handler, look at what it wants."""

from typing import Any

from epicast.core import Effects, Message, NodeId, Peer, Protocol, Recovered
from epicast.core.effects import Connect, Disconnect, Drop, Know, ViewChange


class Single:
    """Each call forgets the effects of the one before."""

    def __init__(self, protocol: Protocol[Any]) -> None:
        self.protocol = protocol
        self.now = 0
        self.fx = Effects()
        self.interest: set[NodeId] = set()
        self.told: list[NodeId] = []
        """Neighbours, as the layer above has heard of them."""

    def call(self, handler: str, *arguments: Any) -> None:
        self.fx = Effects()
        getattr(self.protocol, handler)(self.now, *arguments, self.fx)
        for operation in self.fx.operations:
            match operation:
                case Connect(peer=Peer(id=peer)):
                    assert peer not in self.interest, f"{peer} is connected to twice"
                    self.interest.add(peer)
                case Disconnect(peer=peer):
                    self.interest.remove(peer)
                case ViewChange(peer=peer, up=True):
                    assert peer not in self.told, f"{peer} is announced twice"
                    self.told.append(peer)
                case ViewChange(peer=peer):
                    self.told.remove(peer)
        self.protocol.check_invariants()

    def start(self, *contacts: NodeId) -> None:
        self.call("on_start", [Peer(contact) for contact in contacts], Recovered())

    def receive(self, source: NodeId, *messages: Message) -> None:
        self.call("on_messages", source, messages)

    def up(self, peer: NodeId) -> None:
        self.call("on_peer_up", peer)

    def down(self, peer: NodeId) -> None:
        self.interest.remove(peer)
        self.call("on_peer_down", peer)

    def wait(self, duration: int) -> None:
        """Let time pass, then call for whatever has come due."""
        self.now += duration
        self.call("on_timer")

    def fire(self, name: str) -> None:
        """Jump to the deadline `name`, other timers that come due on the way included."""
        self.now = max(self.now, self.protocol.timers.deadline(name))
        self.call("on_timer")

    @property
    def sends(self) -> list[tuple[Any, Any]]:
        return [(to, message) for to, message, _ in self.fx.sends]

    def sent(self, message_type: type[Message]) -> list[tuple[Any, Any]]:
        return [(to, message) for to, message in self.sends if type(message) is message_type]

    def connects(self) -> list[NodeId]:
        return [op.peer.id for op in self.fx.operations if isinstance(op, Connect)]

    def disconnects(self) -> list[NodeId]:
        return [op.peer for op in self.fx.operations if isinstance(op, Disconnect)]

    def known(self) -> list[NodeId]:
        return [op.peer.id for op in self.fx.operations if isinstance(op, Know)]

    def drops(self) -> list[str]:
        return [op.reason for op in self.fx.operations if isinstance(op, Drop)]
