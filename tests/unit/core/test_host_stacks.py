"""Two topics, each a stack of two layers, on three nodes."""

from collections.abc import Sequence
from random import Random
from typing import Any

from epicast.core import (
    Effects,
    Host,
    HostConfig,
    NodeId,
    Peer,
    Protocol,
    Publication,
    Recovered,
    Stack,
    TopicDelivery,
)
from epicast.core.effects import Connect
from tests.unit.core.probes import Note, batch_of

BATCH = batch_of(b"a", b"b")


class Ring(Protocol[None]):
    """Connects to its contacts and calls them neighbours while they are up."""

    def __init__(self, node: Peer) -> None:
        super().__init__(node, None, Random(node.id))
        self.view: list[NodeId] = []

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        for contact in contacts:
            fx.connect(contact)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        self.view.append(peer)
        fx.neighbor_up(peer)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        self.view.remove(peer)
        fx.neighbor_down(peer)

    def sample(self, k: int) -> list[NodeId]:
        return self.view[:k]


class Spread(Protocol[None]):
    """Sends what is published or new to it to everybody the layer below offers."""

    def __init__(self, node: Peer) -> None:
        super().__init__(node, None, Random(node.id))
        self.seen: set[str] = set()
        self.neighbours: list[NodeId] = []

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        self.neighbours.append(peer)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        self.neighbours.remove(peer)

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        for publication in publications:
            self._spread(publication.batch.payloads()[0].decode(), fx)

    def on_messages(self, now: int, source: NodeId, messages: Sequence[Any], fx: Effects) -> None:
        for message in messages:
            self._spread(message.text, fx)

    def _spread(self, text: str, fx: Effects) -> None:
        if text not in self.seen:
            self.seen.add(text)
            fx.deliver(batch_of(text.encode()))
            fx.send(self.sample(10), Note(text))


class Network:
    """Three nodes; everything arrives at once, connections come up when asked for."""

    def __init__(self, contacts: dict[int, dict[int, list[int]]]) -> None:
        self.delivered: dict[tuple[int, int], list[bytes]] = {}
        self.connects: dict[int, list[int]] = {node: [] for node in contacts}
        self.fx = Effects()
        self.hosts: dict[int, Host] = {}
        for node, topics in contacts.items():
            peer = Peer(node)
            host = self.hosts[node] = Host(peer, HostConfig(), Random(node))
            for topic, others in topics.items():
                stack = Stack(peer, Random(node), [Ring(peer), Spread(peer)])
                host.add(topic, stack, [Peer(other) for other in others])
        for node in contacts:
            self.step(node, "on_start", (), Recovered())

    def step(self, node: int, method: str, *arguments: Any) -> None:
        getattr(self.hosts[node], method)(0, *arguments, self.fx)
        sends, operations = list(self.fx.sends), list(self.fx.operations)
        self.fx.clear()
        for operation in operations:
            if isinstance(operation, TopicDelivery):
                got = self.delivered.setdefault((node, operation.topic), [])
                got += operation.batch.payloads()
            elif isinstance(operation, Connect):
                self.connects[node].append(operation.peer.id)
                self.step(node, "on_peer_up", operation.peer.id)
        for to, message, _ in sends:
            for target in [to] if isinstance(to, int) else to:
                self.step(target, "on_messages", node, (message,))
        self.hosts[node].check_invariants()


def test_two_topics_of_two_layers_each() -> None:
    network = Network({
        1: {7: [2], 8: [2, 3]},
        2: {7: [1, 3], 8: []},
        3: {7: [], 8: [1]},
    })  # fmt: skip
    # One connection per peer, whatever the number of topics that want it.
    assert network.connects == {1: [2, 3], 2: [1, 3], 3: [1]}
    network.step(1, "on_publish", (Publication(1, 1, batch_of(b"seven"), 7),))
    network.step(3, "on_publish", (Publication(3, 1, batch_of(b"eight"), 8),))
    assert network.delivered == {
        (1, 7): [b"seven"], (2, 7): [b"seven"], (3, 7): [b"seven"],
        (3, 8): [b"eight"], (1, 8): [b"eight"], (2, 8): [b"eight"],
    }  # fmt: skip
    assert network.hosts[1].neighbors() == []  # `Ring` keeps its view to itself

    # A peer that is gone is gone for both topics, layer by layer.
    network.step(1, "on_peer_down", 2)
    stacks = [network.hosts[1].protocol(topic) for topic in (7, 8)]
    assert [stack.layers[1].neighbours for stack in stacks] == [[], [3]]  # type: ignore[union-attr]
    network.step(1, "on_publish", (Publication(1, 2, batch_of(b"alone"), 7),))
    assert network.delivered[1, 7] == [b"seven", b"alone"]
    assert network.delivered[2, 7] == [b"seven"]
