"""lpbcast in the simulator, under faults and in stacks; everything drawn from the seed."""

from collections import Counter
from random import Random

import pytest

from epicast.core import EventBatch
from epicast.protocols.catalog import stack_factory
from epicast.protocols.lpbcast import LpbcastConfig
from epicast.sim.checkers import DeliveryLedger, check_nodes, overlay
from epicast.sim.latency import UniformLatency
from epicast.sim.network import Conditions
from epicast.sim.simulation import Simulation

MS = 1_000_000
SECOND = 1000 * MS
CONFIG = LpbcastConfig(gossip_period_ns=100 * MS, contact_every=10, view_size=8, max_subs=8)


def grow(nodes, seed, stack=("lpbcast",), config=CONFIG, **conditions):
    simulation = Simulation(
        seed,
        latency=UniformLatency(MS, 20 * MS, seed),
        conditions=Conditions(**conditions),
        check_addresses=True,
    )
    factory = stack_factory(stack, {"lpbcast": config})
    rng = Random(seed)
    for identity in range(1, nodes + 1):
        contacts = [simulation.nodes[rng.randint(1, identity - 1)].peer] if identity > 1 else []
        simulation.add_node(factory, contacts)
        simulation.run_for(20 * MS)
    simulation.run_for(2 * SECOND)
    return simulation, DeliveryLedger(simulation)


def publish(simulation, ledger, sequences, count, rng, size=40):
    for _ in range(count):
        node = rng.choice([each for each in simulation.live_nodes() if not each.paused])
        sequences[node.id] += 1
        stamp = f"{node.id}:{sequences[node.id]}".encode()
        batch = EventBatch.build(node.id, sequences[node.id], [stamp.ljust(size, b".")])
        ledger.publish(batch)
        simulation.publish(node, batch)
        simulation.run_for(30 * MS)


@pytest.mark.parametrize("seed", range(3))
def test_everything_reaches_everybody_in_spite_of_loss_crashes_and_a_partition(seed):
    simulation, ledger = grow(24, seed, loss=0.1, duplication=0.05, reordering=0.2)
    rng, sequences = Random(seed), Counter()
    publish(simulation, ledger, sequences, 20, rng)
    for node in rng.sample(simulation.live_nodes(), 3):
        simulation.crash(node, silently=True)
    paused = rng.choice(simulation.live_nodes())
    simulation.pause(paused)
    publish(simulation, ledger, sequences, 20, rng)
    simulation.resume(paused)
    half = {node.id for node in rng.sample(simulation.live_nodes(), 8)}

    def cut(one, other):
        return (one in half) != (other in half)

    simulation.network.cut(cut)
    publish(simulation, ledger, sequences, 30, rng)
    check_nodes(simulation)
    simulation.network.mend(cut)
    publish(simulation, ledger, sequences, 20, rng)
    simulation.run_for(6 * SECOND)
    check_nodes(simulation)
    assert ledger.ratio() == 1.0
    assert overlay(simulation).measure(seed).strongly_connected
    assert not {"address unknown", "datagram too large"} & set(simulation.drops)


def test_a_large_event_reaches_everybody_over_connections():
    simulation, ledger = grow(12, 1, loss=0.05)
    publish(simulation, ledger, Counter(), 4, Random(1), size=20_000)
    simulation.run_for(4 * SECOND)
    assert ledger.ratio() == 1.0
    assert "datagram too large" not in simulation.drops


def test_same_seed_same_run():
    runs = []
    for seed in (3, 3, 4):
        simulation, ledger = grow(10, seed, loss=0.1)
        publish(simulation, ledger, Counter(), 10, Random(seed))
        views = [node.protocol.neighbors() for node in simulation.live_nodes()]
        runs.append((simulation.network.sent, list(ledger.delays_ns), views))
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("stack", [("lpbcast", "gossip"), ("cyclon", "lpbcast")])
def test_as_a_membership_below_and_as_dissemination_above(stack):
    simulation, ledger = grow(20, 1, stack)
    simulation.run_for(30 * SECOND if "cyclon" in stack else 0)
    publish(simulation, ledger, Counter(), 20, Random(1))
    simulation.run_for(3 * SECOND)
    assert ledger.ratio() > 0.95  # push gossip misses some now and then
    assert overlay(simulation).measure(1).connected
    assert "address unknown" not in simulation.drops


def test_memory_does_not_depend_on_the_number_of_peers():
    """What is held is what the configuration says, however many there are."""
    held = []
    for nodes in (20, 60):
        simulation, ledger = grow(nodes, 1)
        publish(simulation, ledger, Counter(), 30, Random(1))
        protocols = [node.protocol.layers[0] for node in simulation.live_nodes()]
        held.append(max(p.statistics()["buffered"] + len(p.neighbors()) for p in protocols))
        assert all(len(p.neighbors()) <= CONFIG.view_size for p in protocols)
    assert held[1] <= CONFIG.max_events + CONFIG.view_size
