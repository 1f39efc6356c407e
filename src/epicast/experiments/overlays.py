"""What experiments on overlays share: growing a system one join at a time."""

from __future__ import annotations

from random import Random
from typing import Any

from epicast.core import Trace
from epicast.core.sampling import derive_seed
from epicast.sim.latency import UniformLatency
from epicast.sim.node import ProtocolFactory
from epicast.sim.simulation import Simulation

MILLISECOND = 1_000_000
SECOND = 1_000_000_000


def grow_overlay(
    factory: ProtocolFactory,
    nodes: int,
    seed: int,
    *,
    join_every_ns: int = 50 * MILLISECOND,
    settle_ns: int = 30 * SECOND,
    trace: Trace | None = None,
) -> Simulation:
    """A local network (0.2 to 2 ms) whose nodes 1..n joined one by one, each through one other."""
    latency = UniformLatency(MILLISECOND // 5, 2 * MILLISECOND, derive_seed(seed, "latency"))
    simulation = Simulation(seed, latency=latency, trace=trace)
    rng = Random(derive_seed(seed, "contacts"))

    def join(identity: int, _: Any) -> None:
        contact = simulation.nodes[rng.randint(1, identity - 1)].peer if identity > 1 else None
        simulation.add_node(factory, [contact] if contact else [], identity)

    for index in range(nodes):
        simulation.scheduler.at(index * join_every_ns, join, index + 1)
    simulation.run_until(nodes * join_every_ns + settle_ns)
    return simulation
