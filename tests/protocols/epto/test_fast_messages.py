"""Ordered topics where a message takes a hundredth of a round, as on a local network."""

from random import Random

import pytest

from epicast.core import EventBatch, NodeId
from epicast.protocols.catalog import stack_factory
from epicast.protocols.cyclon import CyclonConfig
from epicast.protocols.epto import EptoConfig
from epicast.sim.latency import UniformLatency
from epicast.sim.node import SimNode
from epicast.sim.simulation import Simulation

MS = 1_000_000
ROUND = 100 * MS
NODES = 40


def sequences(clock: str) -> tuple[int, set[tuple[tuple[int, int], ...]]]:
    """How many events were published, and the different sequences that nodes delivered."""
    rng = Random(5)
    orders: dict[NodeId, list[tuple[int, int]]] = {id: [] for id in range(1, NODES + 1)}
    numbers = dict.fromkeys(orders, 0)

    def deliver(now: int, node: NodeId, batch: EventBatch) -> None:
        orders[node] += [(run.publisher, run.first) for run in batch.runs]

    def publish(node: SimNode, _: object) -> None:
        numbers[node.id] += 1
        simulation.publish(node, EventBatch.build(node.id, numbers[node.id], [b""]))

    simulation = Simulation(5, latency=UniformLatency(MS // 2, 2 * MS, 5), on_delivery=deliver)
    epto = EptoConfig(
        clock=clock,  # type: ignore[arg-type]
        system_size=NODES,
        min_round_ns=ROUND,
        max_datagram_bytes=1 << 20,
    )
    configs = {"cyclon": CyclonConfig(view_size=30, shuffle_period_ns=ROUND), "epto": epto}
    for identity in orders:
        contacts = [simulation.nodes[1].peer] if identity > 1 else []
        simulation.add_node(stack_factory(["cyclon", "epto"], configs), contacts, identity)
    simulation.run_for(40 * ROUND)
    for at in range(1000):
        when = simulation.now + 1 + at * ROUND // 25
        simulation.scheduler.at(when, publish, simulation.nodes[rng.randint(1, NODES)])
    simulation.run_for(80 * ROUND)
    return sum(numbers.values()), {tuple(order) for order in orders.values()}


@pytest.mark.parametrize("clock", ["global", "logical"])
def test_every_node_delivers_everything(clock: str) -> None:
    """Counted by hops, events were old before everybody had them: at some nodes one in three
    thousand was missing."""
    published, found = sequences(clock)
    assert published == 1000
    assert {len(sequence) for sequence in found} == {published}
    assert len(found) == 1
