"""How fast EpTO is simulated: 1,000 processes of which every second publishes in each round.

The real protocol on Cyclon, a global clock, and latencies of a wide area. A round is one of a
process: all of them merge the balls of some twenty others.
"""

from random import Random
from time import process_time
from typing import Any

from bench.harness import Bar, Result
from epicast.core import EventBatch, Peer
from epicast.protocols.catalog import stack_factory
from epicast.protocols.cyclon import CyclonConfig
from epicast.protocols.epto import EptoConfig
from epicast.sim.latency import epto_latency
from epicast.sim.simulation import Simulation

PERIOD_NS = 125_000_000
RATE = 0.5
SHUFFLE_NS = 1_000_000_000
"""Longer than an answer takes: Cyclon drops those that come after the next shuffle."""


def run(quick: bool) -> Result:
    processes, warm_up, rounds = (60, 12, 5) if quick else (1000, 18, 20)
    system = System(processes)
    system.rounds(warm_up)  # until as many events end as begin
    begun, sent = process_time(), system.simulation.network.sent
    before = system.simulation.delivered_events
    system.rounds(rounds)
    seconds = process_time() - begun
    delivered = system.simulation.delivered_events - before
    share = delivered / (rounds * RATE * processes * processes)
    figures = {
        "processes": processes,
        "events_delivered_per_s": round(delivered / seconds),
        "balls_per_s": round((system.simulation.network.sent - sent) / seconds),
        "missing": system.statistic("epto.missing"),
        "waiting_per_process": round(system.statistic("epto.waiting") / processes),
        "delivered_share_of_published": round(share, 3),
    }
    bars = [
        Bar("rounds_per_s", 1, "at least", rounds / seconds, "rounds/s of processor time"),
    ]
    return Result("ordered-sim", figures, bars)


class System:
    def __init__(self, processes: int) -> None:
        self.simulation = Simulation(1, latency=epto_latency(1))
        self._rng = Random(1)
        self._numbers = dict.fromkeys(range(1, processes + 1), 0)
        config = EptoConfig(
            system_size=processes,
            round_period_ns=PERIOD_NS,
            adaptive_period=False,
            idle_fanout=0,
            max_datagram_bytes=1 << 30,
            max_ball_bytes=1 << 26,
        )
        membership = CyclonConfig(view_size=30, shuffle_length=10, shuffle_period_ns=SHUFFLE_NS)
        factory = stack_factory(["cyclon", "epto"], {"cyclon": membership, "epto": config})
        for identity in self._numbers:
            contacts = [Peer(self._rng.randrange(1, identity))] if identity > 1 else []
            self.simulation.add_node(factory, contacts, identity)
        self.simulation.run_for(100 * PERIOD_NS)  # views are mixed, and all have begun

    def rounds(self, count: int) -> None:
        simulation, rng = self.simulation, self._rng
        for _ in range(count):
            begin = simulation.now
            for identity in self._numbers:
                if rng.random() < RATE:
                    at = begin + int(rng.random() * PERIOD_NS)
                    simulation.scheduler.at(at, self._publish, identity)
            simulation.run_until(begin + PERIOD_NS)

    def _publish(self, identity: int, _: Any) -> None:
        self._numbers[identity] += 1
        batch = EventBatch.build(identity, self._numbers[identity], [b"0123456789"])
        self.simulation.publish(self.simulation.nodes[identity], batch)

    def statistic(self, name: str) -> int:
        return sum(int(node.protocol.statistics()[name]) for node in self.simulation.live_nodes())
