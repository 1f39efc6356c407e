"""What a gossip topic costs a peer in memory, by the number of peers: it should not depend on it.

Not a claim of the paper by number, but the point of it. The protocol as it runs on a network, with
digests, retrieval and adaptive publishing; the same fifty peers publish, however many others there
are. Bytes are those allocated during the run and still held at its end, per peer, by tracemalloc;
entries are what buffers, views and digests hold.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence

from epicast.core import EventBatch
from epicast.experiments.gossip_rounds import ROUND_NS, uniform_views
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results
from epicast.protocols.lpbcast import Lpbcast, LpbcastConfig
from epicast.reporting import new_figure
from epicast.sim.latency import UniformLatency
from epicast.sim.simulation import Simulation

_SIZES = {
    Scale.SMOKE: (60, 180),
    Scale.PAPER: (100, 1000, 10_000),
    Scale.BEYOND: (1000, 10_000, 50_000),
}
_PUBLISHERS = 50
_ROUNDS, _EVENTS_PER_ROUND = 14, 10
_HELD = ("view", "buffered", "stored", "sources", "retrieving", "waiting")


class GossipMemory(Experiment):
    name = "gossip-memory"
    title = "lpbcast: memory per peer by the number of peers"
    claim_ids = ()

    def points(self, scale: Scale) -> Sequence[Parameters]:
        return [{"nodes": nodes} for nodes in _SIZES[scale]]

    def run(self, parameters: Parameters, seed: int) -> Row:
        nodes = int(parameters["nodes"] or 0)
        config = LpbcastConfig(gossip_period_ns=ROUND_NS, settling_rounds=2, contact_every=0)
        views = uniform_views(nodes, config.view_size, seed)
        gc.collect()
        tracemalloc.start()
        try:
            simulation = Simulation(seed, latency=UniformLatency(1_000_000, 50_000_000, seed))
            for identity in range(1, nodes + 1):
                simulation.add_node(
                    lambda peer, rng: Lpbcast(peer, config, rng), views(identity), identity
                )
            for number in range(_ROUNDS * _EVENTS_PER_ROUND):
                publisher = number % min(_PUBLISHERS, nodes) + 1
                batch = EventBatch.build(publisher, number // _PUBLISHERS + 1, [bytes(100)])
                at = (number // _EVENTS_PER_ROUND) * ROUND_NS
                simulation.scheduler.at(at, simulation.publish, simulation.nodes[publisher], batch)
            simulation.run_until(_ROUNDS * ROUND_NS + ROUND_NS // 2)
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
            "delivered_per_peer": simulation.delivered_events / nodes,
        }

    def claims(self, results: Results) -> Sequence[Claim]:
        return []

    def plots(self, results: Results) -> Sequence[Plot]:
        figure, axes = new_figure("peers", "bytes per peer")
        axes.semilogx(results.numbers("nodes"), results.numbers("bytes_per_peer"), "o-")
        axes.set_ylim(bottom=0)
        return [Plot("memory", "Memory of a peer, the simulator's share of it included.", figure)]
