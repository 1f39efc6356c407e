"""What experiments on gossip share: systems that run in rounds, and who had which event when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from epicast.core import EventBatch, NodeId, Peer
from epicast.core.sampling import choose, derive_seed, sample
from epicast.protocols.lpbcast import LpbcastConfig
from epicast.sim.latency import UniformLatency
from epicast.sim.network import Conditions
from epicast.sim.node import ProtocolFactory
from epicast.sim.simulation import Simulation

ROUND_NS = 1_000_000_000
_LOW_NS, _HIGH_NS = 1_000_000, 50_000_000
"""Messages arrive well within the round they were sent in, as the analysis assumes."""
_PAYLOAD = bytes(16)
EventId = tuple[int, int]

PAPER: Mapping[str, Any] = {
    # lpbcast as the paper simulates and measures it: nothing is retrieved, publishers are not held
    # back, a gossip is as large as its buffers, nobody is privileged.
    "gossip_period_ns": ROUND_NS,
    "aligned_rounds": True,
    "retrieval": False,
    "adaptive": False,
    "max_age_rounds": 0,
    "max_message_bytes": 1 << 20,
    "contact_every": 0,
    "membership": "random",
    "purging": "random",
    "view_size": 15,
    "max_subs": 15,
    "resubscribe_rounds": 1000,
    "max_welcomes": 0,
}


def paper_config(**settings: Any) -> LpbcastConfig:
    return LpbcastConfig(**{**PAPER, **settings})


def uniform_views(nodes: int, size: int, seed: int) -> Callable[[NodeId], list[Peer]]:
    """For every node so many others, drawn from all."""
    rng = Random(derive_seed(seed, "views"))
    everybody = [Peer(identity) for identity in range(1, nodes + 1)]

    def view(me: NodeId) -> list[Peer]:
        chosen = sample(rng, everybody, min(nodes, size + 1))
        return [peer for peer in chosen if peer.id != me][:size]

    return view


def ring_views(nodes: int) -> Callable[[NodeId], list[Peer]]:
    """Everybody knows two neighbours."""
    return lambda me: [Peer(me % nodes + 1), Peer((me - 2) % nodes + 1)]


def star_views(me: NodeId) -> list[Peer]:
    """Everybody knows one process, which knows nobody."""
    return [Peer(1)] if me != 1 else []


class RoundSystem:
    """Nodes 1..n, started together; events published by them; a round is `ROUND_NS`."""

    def __init__(
        self,
        factory: ProtocolFactory,
        nodes: int,
        seed: int,
        *,
        views: Callable[[NodeId], Sequence[Peer]],
        loss: float = 0.0,
    ) -> None:
        self.simulation = Simulation(
            seed,
            latency=UniformLatency(_LOW_NS, _HIGH_NS, derive_seed(seed, "latency")),
            conditions=Conditions(loss=loss),
            on_delivery=self._on_delivery,
        )
        self.published: dict[EventId, int] = {}
        """When each event was published."""
        self.deliveries: dict[EventId, list[int]] = {}
        """How many nodes got each event in its first, second, … round; the publisher in none."""
        self._rng = Random(derive_seed(seed, "workload"))
        self._sequences: dict[NodeId, int] = {}
        for identity in range(1, nodes + 1):
            self.simulation.add_node(factory, views(identity), identity)
        self.simulation.run_for(ROUND_NS // 2)  # between two rounds, where rounds are aligned

    @property
    def alive(self) -> int:
        return len(self.simulation.live_nodes())

    def crash(self, share: float) -> None:
        """So many nodes are gone, and nobody is told."""
        live = self.simulation.live_nodes()
        for node in sample(self._rng, live, round(share * len(live))):
            self.simulation.crash(node, silently=True)

    def run(self, rounds: float, events_per_round: float = 0, *, at_once: bool = True) -> None:
        """Let rounds pass; events come all at the beginning of a round or spread over it."""
        owed = 0.0
        for _ in range(round(rounds)):
            owed += events_per_round
            count = int(owed)
            owed -= count
            begin = self.simulation.now
            times = [0 if at_once else self._rng.randrange(ROUND_NS) for _ in range(count)]
            for after in sorted(times):
                self.simulation.run_until(begin + after)
                self.publish()
            self.simulation.run_until(begin + ROUND_NS)

    def publish(self) -> EventId:
        """One event, by any node."""
        node = choose(self._rng, self.simulation.live_nodes())
        sequence = self._sequences[node.id] = self._sequences.get(node.id, 0) + 1
        event = (node.id, sequence)
        self.published[event] = self.simulation.now
        self.deliveries[event] = []
        self.simulation.publish(node, EventBatch.build(node.id, sequence, [_PAYLOAD]))
        return event

    def reached(self, event: EventId) -> int:
        """How many nodes have an event, its publisher included."""
        return 1 + sum(self.deliveries[event])

    def infected(self, event: EventId, rounds: int) -> list[int]:
        """How many nodes had the event after 0, 1, … rounds."""
        counts, total = [1], 1
        new = self.deliveries[event]
        for number in range(rounds):
            total += new[number] if number < len(new) else 0
            counts.append(total)
        return counts

    def events_between(self, first_round: float, last_round: float) -> list[EventId]:
        """Those published from one round to another, counted from the start."""
        low, high = first_round * ROUND_NS, last_round * ROUND_NS
        return [event for event, at in self.published.items() if low <= at < high]

    def statistic(self, name: str) -> float:
        """The sum over the nodes."""
        return sum(node.protocol.statistics()[name] for node in self.simulation.live_nodes())

    def _on_delivery(self, now: int, node: NodeId, batch: EventBatch) -> None:
        event = (batch.stream, batch.first)
        if node == batch.stream:
            return
        number = (now - self.published[event]) // ROUND_NS
        counts = self.deliveries[event]
        while len(counts) <= number:
            counts.append(0)
        counts[number] += 1
