"""What must hold: at every look during a run, and at its end. Independent of any protocol."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter

from msgspec import Struct

from epicast.core import EventBatch, IntervalSet, InvariantViolation, NodeId
from epicast.sim.overlay import Overlay
from epicast.sim.simulation import Simulation


class Published(Struct, gc=False):
    at: int
    batch: EventBatch
    membership: int
    """How often nodes had gone up or down by then: those that started earlier are owed it."""


class DeliveryLedger:
    """Who published what, who got what; finds duplicates and forgeries as they happen."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self.published: list[Published] = []
        self._index: dict[int, list[Published]] = {}
        """Per stream, by sequence number."""
        self._delivered: dict[tuple[NodeId, int, int], IntervalSet] = {}
        self.deliveries = 0
        self.delays_ns: array[int] = array("q")
        """One per delivered batch."""
        simulation.on_delivery = self.on_delivery

    def publish(self, batch: EventBatch) -> Published:
        """To be told right before a publication; those of one stream in order."""
        published = Published(self._sim.now, batch, self._sim.membership_changes)
        self.published.append(published)
        self._index.setdefault(batch.stream, []).append(published)
        return published

    def on_delivery(self, now: int, node: NodeId, batch: EventBatch) -> None:
        incarnation = self._sim.nodes[node].incarnation
        had = self._delivered.setdefault((node, incarnation, batch.stream), IntervalSet())
        new = had.add_new(batch.first, batch.last)
        if sum(last - first + 1 for first, last in new) != batch.last - batch.first + 1:
            raise InvariantViolation(
                f"node {node} was delivered events of {batch.stream}:{batch.first}..{batch.last} "
                f"twice; it had {had}"
            )
        self.deliveries += batch.rows
        covered = batch.first - 1
        for source in self._origins(batch):
            first, last = covered + 1, min(batch.last, source.batch.last)
            if source.batch.slice(first, last) != batch.slice(first, last):
                break
            covered = last
        if covered != batch.last:
            raise InvariantViolation(f"node {node} was delivered {batch}, which nobody published")
        self.delays_ns.append(now - source.at)

    def account(self, published: Iterable[Published] | None = None) -> tuple[int, int]:
        """Deliveries owed and made, of each event to each node up from then until now."""
        alive = self._sim.live_nodes()
        owed = made = 0
        for each in self.published if published is None else published:
            batch = each.batch
            for node in alive:
                if node.started > each.membership:
                    continue
                owed += batch.rows
                had = self._delivered.get((node.id, node.incarnation, batch.stream))
                if had is None:
                    continue
                missing = had.missing(batch.first, batch.last)
                made += batch.rows - sum(last - first + 1 for first, last in missing)
        return owed, made

    def ratio(self, published: Iterable[Published] | None = None) -> float:
        """The share of what is owed that was delivered."""
        owed, made = self.account(published)
        return made / owed if owed else 1.0

    def _origins(self, batch: EventBatch) -> Iterator[Published]:
        """What was published of the numbers of `batch`, as long as there is no hole."""
        index = self._index.get(batch.stream, [])
        wanted = batch.first
        at = bisect_right(index, wanted, key=attrgetter("batch.first")) - 1
        while 0 <= at < len(index) and wanted <= batch.last:
            published = index[at]
            if not published.batch.first <= wanted <= published.batch.last:
                return
            yield published
            wanted = published.batch.last + 1
            at += 1


def check_nodes(simulation: Simulation) -> None:
    """Every live protocol looks at itself."""
    for node in simulation.live_nodes():
        try:
            node.protocol.check_invariants()
        except InvariantViolation as error:
            raise InvariantViolation(
                f"node {node.id} at {simulation.now / 1e9:.3f} s: {error}"
            ) from error


def overlay(simulation: Simulation) -> Overlay:
    """The graph of live nodes and the neighbours they believe in."""
    alive = {node.id: node for node in simulation.live_nodes()}
    return Overlay.from_views(
        {
            identity: [peer for peer in node.protocol.neighbors() if peer in alive]
            for identity, node in alive.items()
        }
    )
