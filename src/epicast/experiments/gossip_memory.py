"""What a gossip topic costs a peer in memory, by the number of peers: it should not depend on it.

Not a claim of the paper by number, but the point of it. The protocol as it runs on a network, with
digests, retrieval and adaptive publishing. Everywhere as many events are published; by a share of
the peers, so that what is kept per publisher shows. Bytes are those allocated during the run and
still held at its end, per peer, by tracemalloc, the simulator's included; entries are what buffers,
views and digests hold.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence

from epicast.core import EventBatch
from epicast.experiments.gossip_rounds import ROUND_NS, uniform_views
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results
from epicast.experiments.verdicts import OURS, in_parts
from epicast.protocols.lpbcast import Lpbcast, LpbcastConfig
from epicast.reporting import new_figure
from epicast.sim.latency import UniformLatency
from epicast.sim.simulation import Simulation

_SIZES: dict[Scale, tuple[tuple[int, ...], int, int]] = {
    # peers; of how many one publishes; events. Each publisher has one event at least.
    Scale.SMOKE: ((40, 120), 5, 60),
    Scale.PAPER: ((100, 1000, 10_000), 20, 500),
    Scale.BEYOND: ((1000, 10_000, 50_000), 100, 500),
}
_ROUNDS = 14
_CONFIG = LpbcastConfig(gossip_period_ns=ROUND_NS, settling_rounds=2, contact_every=0)
_HELD = ("view", "buffered", "stored", "retrieving", "waiting")
_LIMITS = (
    "view_size", "max_events", "max_stored_events", "max_retrievals", "max_waiting", "max_sources"
)  # fmt: skip
_GROWTH = 1.25
"""How many times the memory with the fewest peers any number of peers may take."""


class GossipMemory(Experiment):
    name = "gossip-memory"
    title = "lpbcast: memory per peer by the number of peers"
    claim_ids = ("MEMORY",)

    def points(self, scale: Scale) -> Sequence[Parameters]:
        sizes, one_in, events = _SIZES[scale]
        return [
            {"nodes": nodes, "publishers": nodes // one_in, "events": events} for nodes in sizes
        ]

    def run(self, parameters: Parameters, seed: int) -> Row:
        nodes, publishers, events = (
            int(parameters[name] or 0) for name in ("nodes", "publishers", "events")
        )
        _simulate(20, 2, 20, seed)  # what is allocated once per process is no peer's
        gc.collect()
        tracemalloc.start()
        try:
            simulation = _simulate(nodes, publishers, events, seed)
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        figures = [node.protocol.statistics() for node in simulation.live_nodes()]
        entries = [sum(each[name] for name in _HELD) for each in figures]
        return {
            "bytes_per_peer": held / nodes,
            "entries_per_peer": sum(entries) / nodes,
            "most_entries": max(entries),
            "sources_per_peer": sum(each["sources"] for each in figures) / nodes,
            "most_sources": max(each["sources"] for each in figures),
            "delivered_per_peer": simulation.delivered_events / nodes,
        }

    def claims(self, results: Results) -> Sequence[Claim]:
        rows = sorted(results, key=lambda row: int(row["nodes"] or 0))

        def column(name: str) -> list[float]:
            return Results(results.scale, rows).numbers(name)

        grown = {
            name: max(column(name)) / column(name)[0] for name in ("bytes_per_peer", "most_entries")
        }
        holds, verdict = in_parts(
            {
                f"bytes per peer grow by less than {_GROWTH - 1:.0%}, or fall": grown[
                    "bytes_per_peer"
                ]
                < _GROWTH,
                "so do the entries of the fullest peer, publishers remembered left out": grown[
                    "most_entries"
                ]
                < _GROWTH,
                "nobody remembers more publishers than its limit": max(column("most_sources"))
                <= _CONFIG.max_sources,
            }
        )
        told = [
            f"{row['nodes']} peers, {row['publishers']} of which publish: "
            f"{float(row['bytes_per_peer'] or 0) / 1000:.0f} kB and "
            f"{float(row['entries_per_peer'] or 0):.0f} entries per peer, "
            f"{float(row['most_entries'] or 0):.0f} in the fullest, "
            f"{float(row['sources_per_peer'] or 0):.0f} publishers remembered"
            for row in rows
        ]
        limits = ", ".join(f"{name} {getattr(_CONFIG, name)}" for name in _LIMITS)
        return [
            Claim(
                id="MEMORY",
                paper="(not a numbered claim) memory per peer does not depend on the number of "
                "peers",
                ours="; ".join(told),
                holds=holds,
                detail=f"{verdict}. At most {max(grown.values()):.2f} times what it is with the "
                f"fewest peers; {OURS}. What bounds it: {limits}. Publishers that are remembered "
                "grow with those that publish, up to their limit",
            )
        ]

    def plots(self, results: Results) -> Sequence[Plot]:
        figure, axes = new_figure("peers", "bytes per peer")
        axes.semilogx(results.numbers("nodes"), results.numbers("bytes_per_peer"), "o-")
        axes.set_ylim(bottom=0)
        return [Plot("memory", "Memory of a peer, the simulator's share of it included.", figure)]


def _simulate(nodes: int, publishers: int, events: int, seed: int) -> Simulation:
    """The first of the peers publish in turn, as many in every round."""
    views = uniform_views(nodes, _CONFIG.view_size, seed)
    simulation = Simulation(seed, latency=UniformLatency(1_000_000, 50_000_000, seed))
    for identity in range(1, nodes + 1):
        simulation.add_node(
            lambda peer, rng: Lpbcast(peer, _CONFIG, rng), views(identity), identity
        )  # fmt: skip
    for number in range(events):
        publisher = number % publishers + 1
        batch = EventBatch.build(publisher, number // publishers + 1, [bytes(100)])
        at = number * _ROUNDS // events * ROUND_NS
        simulation.scheduler.at(at, simulation.publish, simulation.nodes[publisher], batch)
    simulation.run_until(_ROUNDS * ROUND_NS + ROUND_NS // 2)
    return simulation
