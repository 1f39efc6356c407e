"""Push gossip in the simulator: as far as theory says, however events are batched."""

from collections import Counter
from math import exp, log
from random import Random

import pytest

from epicast.core import EventBatch
from epicast.protocols.catalog import stack_factory
from epicast.protocols.cyclon import CyclonConfig
from epicast.protocols.gossip import PushGossip, PushGossipConfig
from epicast.protocols.membership import FullMembership
from epicast.sim.latency import UniformLatency
from epicast.sim.network import Conditions
from epicast.sim.simulation import Simulation

MS = 1_000_000
SECOND = 1_000_000_000


def simulate(nodes: int, fanout: int, seed: int = 1, **options) -> tuple[Simulation, Counter]:
    """A system in which everybody knows everybody; counts deliveries per (stream, number)."""
    counts: Counter[tuple[int, int]] = Counter()

    def count(now: int, node: int, batch: EventBatch) -> None:
        counts.update((batch.stream, number) for number in range(batch.first, batch.last + 1))

    simulation = Simulation(
        seed, latency=UniformLatency(10 * MS, 100 * MS, seed), on_delivery=count, **options
    )
    everybody = list(range(1, nodes + 1))
    config = PushGossipConfig(fanout=fanout)
    for _ in everybody:
        simulation.add_node(
            lambda peer, rng: PushGossip(peer, config, rng, FullMembership(peer.id, everybody, rng))
        )
    return simulation, counts


def publish(simulation: Simulation, events: int, batch: int = 1, every: int = SECOND) -> None:
    """Events 1..n of node 1, in batches, all of a batch at the time of its first."""
    for first in range(1, events + 1, batch):
        last = min(first + batch - 1, events)
        payloads = [f"event {number}".encode() for number in range(first, last + 1)]
        simulation.publish(simulation.nodes[1], EventBatch.build(1, first, payloads))
        simulation.run_for(every)


def infect_and_die(fanout: float) -> float:
    """The share r of nodes reached: r = 1 - exp(-fanout r)."""
    share = 0.9
    for _ in range(200):
        share = 1 - exp(-fanout * share)
    return share


@pytest.mark.parametrize("fanout", [2, 3, 5])
def test_the_share_reached_is_what_theory_predicts(fanout):
    nodes, events = 400, 100
    simulation, counts = simulate(nodes, fanout)
    publish(simulation, events)
    reached = [counts[1, number] / nodes for number in range(1, events + 1)]
    spread = [share for share in reached if share > 0.2]  # some die at once, if the fanout is small
    assert sum(spread) / len(spread) == pytest.approx(infect_and_die(fanout), abs=0.02)
    # Everybody that had it passed it on to `fanout` others, once.
    assert simulation.network.sent == fanout * sum(counts.values())


@pytest.mark.parametrize("margin", [0.0, 2.0])
def test_everybody_is_reached_with_the_probability_of_the_double_exponential(margin):
    nodes, events = 200, 400
    fanout = round(log(nodes) + margin)
    simulation, counts = simulate(nodes, fanout)
    publish(simulation, events, every=SECOND // 2)
    simulation.run_for(2 * SECOND)
    atomic = sum(counts[1, number] == nodes for number in range(1, events + 1)) / events
    assert atomic == pytest.approx(exp(-exp(-(fanout - log(nodes)))), abs=0.1)


def test_loss_lowers_the_fanout_by_its_share():
    nodes, events = 300, 60
    simulation, counts = simulate(nodes, 5, conditions=Conditions(loss=0.4))
    publish(simulation, events)
    reached = [counts[1, number] / nodes for number in range(1, events + 1)]
    spread = [share for share in reached if share > 0.2]
    assert sum(spread) / len(spread) == pytest.approx(infect_and_die(5 * 0.6), abs=0.02)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_batching_changes_neither_what_is_delivered_nor_how_often(seed):
    """With a fanout that reaches everyone, every size gives every event to everyone once."""
    nodes, events = 30, 1000
    for batch in (1, 7, 1000):
        simulation, counts = simulate(nodes, 29, seed)
        publish(simulation, events, batch, every=2 * MS)
        simulation.run_for(2 * SECOND)
        assert counts == {(1, number): nodes for number in range(1, events + 1)}


def test_events_batched_in_different_ways_on_different_paths_are_delivered_once():
    """The same thousand events enter at three nodes, cut up differently."""
    nodes = 20
    simulation, counts = simulate(nodes, 19)
    payloads = [str(number).encode() for number in range(1000)]
    whole = EventBatch.build(99, 1, payloads)
    rng = Random(3)
    for node, size in ((1, 1), (2, 7), (3, 1000)):
        firsts = list(range(1, 1001, size))
        rng.shuffle(firsts)
        for first in firsts:
            part = whole.slice(first, min(first + size - 1, 1000))
            simulation.scheduler.at(
                rng.randrange(SECOND), simulation.publish, simulation.nodes[node], part
            )
    simulation.run_for(5 * SECOND)
    assert counts == {(99, number): nodes for number in range(1, 1001)}
    assert simulation.drops == {}


def test_on_a_peer_sampling_layer_it_reaches_as_many():
    nodes, events = 100, 30
    counts: Counter[int] = Counter()
    simulation = Simulation(
        1,
        latency=UniformLatency(10 * MS, 100 * MS, 1),
        check_addresses=True,
        on_delivery=lambda now, node, batch: counts.update([batch.first]),
    )
    configs = {
        "gossip": PushGossipConfig(fanout=5),
        "cyclon": CyclonConfig(shuffle_period_ns=SECOND),
    }
    factory = stack_factory(["cyclon", "gossip"], configs)
    rng = Random(1)
    for identity in range(1, nodes + 1):
        contacts = [simulation.nodes[rng.randint(1, identity - 1)].peer] if identity > 1 else []
        simulation.add_node(factory, contacts)
        simulation.run_for(20 * MS)
    simulation.run_for(40 * SECOND)
    publish(simulation, events)
    simulation.run_for(2 * SECOND)
    reached = [counts[number] / nodes for number in range(1, events + 1)]
    assert sum(reached) / events == pytest.approx(infect_and_die(5), abs=0.02)
    assert "address unknown" not in simulation.drops
