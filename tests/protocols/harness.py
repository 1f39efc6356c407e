"""A tiny driver for protocol tests: constant delay, so everything is first in, first out.

It holds a protocol to the contract (a peer must be known before it is sent to) and keeps its own
side: one up or down per connect, silence after a disconnect, nothing across a restart.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any

from epicast.core import Effects, EventBatch, Layered, NodeId, Peer, Protocol, Recovered
from epicast.core.effects import Connect, Disconnect, Drop, Know, ViewChange

MS = 1_000_000
SECOND = 1000 * MS
Stimulus = Callable[[Any, Effects], None]


class Network:
    def __init__(self, delay: int = 10 * MS) -> None:
        self.delay = delay
        self.now = 0
        self.nodes: dict[NodeId, Protocol[Any]] = {}
        self.views: dict[NodeId, list[NodeId]] = defaultdict(list)  # as told to the layer above
        self.delivered: dict[NodeId, list[EventBatch]] = defaultdict(list)
        self.transcript: list[str] = []
        self.drops: list[str] = []
        self._known: dict[NodeId, set[NodeId]] = defaultdict(set)
        self._interest: dict[tuple[NodeId, NodeId], int] = {}
        self._groups: list[set[NodeId]] = []
        self._paused: dict[NodeId, list[Stimulus]] = {}
        self._armed: dict[NodeId, int] = {}
        self._queue: list[tuple[int, int, Protocol[Any], Stimulus]] = []
        self._serial = 0

    def start(self, protocol: Protocol[Any], contacts: Iterable[NodeId] = ()) -> None:
        peers = [Peer(contact) for contact in contacts]
        self.nodes[protocol.node.id] = protocol
        self.do(protocol.node.id, lambda p, fx: p.on_start(self.now, peers, Recovered(), fx))

    def kill(self, victim: NodeId) -> None:
        """Crash: whoever is interested in the victim notices."""
        for state in (self.nodes, self.views, self._known, self._armed):
            state.pop(victim, None)
        for asker, wanted in sorted(self._interest):
            if asker == victim:
                del self._interest[asker, wanted]
            elif wanted == victim:
                self._report(asker, wanted, up=False)

    def leave(self, leaver: NodeId) -> None:
        self.do(leaver, lambda p, fx: p.on_stop(self.now, fx))
        self.kill(leaver)

    def partition(self, *groups: Iterable[NodeId]) -> None:
        """Messages between groups vanish, and nobody is told. No groups: mended."""
        self._groups = [set(group) for group in groups]

    def pause(self, node: NodeId) -> None:
        self._paused[node] = []

    def resume(self, node: NodeId) -> None:
        for stimulus in self._paused.pop(node):
            self.do(node, stimulus)

    def run(self, duration: int) -> None:
        end = self.now + duration
        while self._queue and self._queue[0][0] <= end:
            self.now, _, target, stimulus = heappop(self._queue)
            if self.nodes.get(target.node.id) is target:
                self.do(target.node.id, stimulus)
        self.now = end

    def do(self, node: NodeId, stimulus: Stimulus) -> None:
        """Call one handler, check the invariants, carry out what it asks for."""
        if node in self._paused:
            self._paused[node].append(stimulus)
            return
        protocol, fx = self.nodes[node], Effects()
        stimulus(protocol, fx)
        protocol.check_invariants()
        for operation in fx.operations:
            match operation:
                case Connect(peer=Peer(id=peer)):
                    self._known[node].add(peer)
                    self._interest[node, peer] = self._serial = self._serial + 1
                    self._report(node, peer, peer in self.nodes and not self._severed(node, peer))
                case Disconnect(peer=peer):
                    self._interest.pop((node, peer), None)
                case Know(peer=Peer(id=peer)):
                    self._known[node].add(peer)
                case ViewChange(peer=peer, up=up):
                    (self.views[node].append if up else self.views[node].remove)(peer)
                case Drop(reason=reason):
                    self.drops.append(reason)
        for to, message, _ in fx.sends:
            inner = message.message if isinstance(message, Layered) else message
            for peer in [to] if isinstance(to, int) else to:
                assert peer in self._known[node], f"{node} sends to {peer}, which it never met"
                self.transcript.append(f"{self.now // MS} ms  {node} -> {peer}  {inner}")
                self._later(peer, lambda p, fx, m=message: self._receive(p, node, m, fx))
        self.delivered[node] += fx.deliveries
        deadline = protocol.next_deadline()
        if deadline is not None and deadline != self._armed.get(node):
            self._armed[node] = deadline
            self._later(node, lambda p, fx: p.on_timer(self.now, fx), deadline)

    def _receive(self, protocol: Protocol[Any], source: NodeId, message: Any, fx: Effects) -> None:
        if not self._severed(source, protocol.node.id):
            self._known[protocol.node.id].add(source)
            protocol.on_messages(self.now, source, (message,), fx)

    def _report(self, asker: NodeId, peer: NodeId, up: bool) -> None:
        def tell(protocol: Any, fx: Effects) -> None:
            if self._interest.get((asker, peer)) != token:
                return
            if not up:
                del self._interest[asker, peer]
            (protocol.on_peer_up if up else protocol.on_peer_down)(self.now, peer, fx)

        token = self._interest[asker, peer]
        self._later(asker, tell)

    def _severed(self, one: NodeId, other: NodeId) -> bool:
        return any((one in group) != (other in group) for group in self._groups)

    def _later(self, node: NodeId, stimulus: Stimulus, at: int | None = None) -> None:
        if node in self.nodes:
            self._serial += 1
            when = self.now + self.delay if at is None else at
            heappush(self._queue, (when, self._serial, self.nodes[node], stimulus))
