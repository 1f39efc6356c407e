"""How membership protocols shape their overlays, and how they recover from massive failures.

Not a claim of our papers, but the ground they stand on: "tolerates up to 80 % failures" is what
Brisa relies on. A share of the nodes fails at one instant; the survivors' overlay is then looked at
periodically. HyParView notices by its connections and repairs at once; Cyclon ages out whoever
does not answer; lpbcast's views, reinforced views and Scamp forget who no longer speaks for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from epicast.core import Config
from epicast.core.sampling import derive_seed, sample
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.overlays import SECOND, grow_overlay
from epicast.experiments.results import Results
from epicast.protocols.catalog import stack_factory
from epicast.protocols.cyclon import CyclonConfig
from epicast.protocols.hyparview import HyParViewConfig
from epicast.protocols.lpbcast import LpbcastConfig
from epicast.protocols.reinforcement import ReinforcementConfig
from epicast.protocols.scamp import ScampConfig
from epicast.reporting import new_figure
from epicast.sim.overlay import Overlay
from epicast.sim.simulation import Simulation

_NODES = {Scale.SMOKE: 60, Scale.PAPER: 1000, Scale.BEYOND: 10_000}
_SHARES = {
    Scale.SMOKE: (0.3, 0.8),
    Scale.PAPER: (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
    Scale.BEYOND: (0.5, 0.8),
}
_LOOKS_S = (0, 2, 5, 10, 20, 40, 60, 90, 120)
_CONFIGS: dict[str, Config] = {
    # The sizes of HyParView's own evaluation: Cyclon gets as many entries as both views together.
    "hyparview": HyParViewConfig(active_view=5, passive_view=30),
    "cyclon": CyclonConfig(view_size=35, shuffle_length=14),
    # As many again; all exchange about as often as Cyclon shuffles.
    "lpbcast": LpbcastConfig(
        view_size=35, max_subs=20, gossip_period_ns=5 * SECOND, max_message_bytes=8000
    ),
    "reinforcement": ReinforcementConfig(view_size=35, exchange_period_ns=5 * SECOND),
    "scamp": ScampConfig(),
}


class PeerSampling(Experiment):
    name = "peer-sampling"
    title = "Degree, clustering, paths and recovery of five membership protocols"
    claim_ids = ()

    def points(self, scale: Scale) -> Sequence[Parameters]:
        return [
            {"protocol": protocol, "failed": failed, "nodes": _NODES[scale]}
            for protocol in _CONFIGS
            for failed in _SHARES[scale]
        ]

    def run(self, parameters: Parameters, seed: int) -> Sequence[Row]:
        protocol, nodes = str(parameters["protocol"]), int(parameters["nodes"] or 0)
        failed = float(parameters["failed"] or 0)
        factory = stack_factory([protocol], _CONFIGS)
        simulation = grow_overlay(factory, nodes, seed, settle_ns=120 * SECOND)
        rows: list[Row] = [{"after_s": -1, **_look(simulation, seed)}]
        rng = Random(derive_seed(seed, "failures"))
        for node in sample(rng, simulation.live_nodes(), round(failed * nodes)):
            simulation.crash(node)
        struck = simulation.now
        for after in _LOOKS_S:
            simulation.run_until(struck + after * SECOND)
            rows.append({"after_s": after, **_look(simulation, seed)})
        return rows

    def claims(self, results: Results) -> Sequence[Claim]:
        return []

    def plots(self, results: Results) -> Sequence[Plot]:
        return [
            _recovery_plot(results),
            _over_time(results, "dead_links", "share of view entries that are dead"),
            _degree_plot(results),
        ]


def _look(simulation: Simulation, seed: int) -> dict[str, Any]:
    """The overlay of the live nodes; links to dead ones are counted, then ignored."""
    live = simulation.live_nodes()
    views = {node.id: node.protocol.neighbors() for node in live}
    metrics = Overlay.from_views(views).measure(seed)
    entries = sum(map(len, views.values()))
    return {
        "alive": len(live),
        "dead_links": metrics.dangling / entries if entries else 0.0,
        "connected": metrics.connected,
        "largest_component": metrics.largest_component,
        "strongly_connected": metrics.strongly_connected,
        "out_degree_mean": metrics.out_degree.mean,
        "in_degree_mean": metrics.in_degree.mean,
        "in_degree_deviation": metrics.in_degree.deviation,
        "in_degree_min": metrics.in_degree.minimum,
        "in_degree_max": metrics.in_degree.maximum,
        "clustering": metrics.clustering,
        "path_length": metrics.paths.mean,
        "diameter": metrics.paths.diameter,
    }


def _recovery_plot(results: Results) -> Plot:
    figure, axes = new_figure("failed at once (%)", "largest component of the survivors (%)")
    for color, protocol in enumerate(results.distinct("protocol")):
        for after, style in ((0, "--"), (60, "-")):
            rows = results.where(protocol=protocol, after_s=after)
            shares = [100 * value for value in rows.numbers("failed")]
            largest = [100 * value for value in rows.numbers("largest_component")]
            label = f"{protocol}, {'at once' if after == 0 else f'{after} s later'}"
            axes.plot(shares, largest, style, marker="osD^v"[color], color=f"C{color}", label=label,
                      markersize=8 - color)  # fmt: skip
    axes.set_ylim(0, 103)
    axes.legend()
    return Plot("recovery", "What is left in one piece after simultaneous failures.", figure)


def _over_time(results: Results, column: str, label: str) -> Plot:
    figure, axes = new_figure("seconds after the failure", label)
    worst = max(results.numbers("failed"))
    for protocol in results.distinct("protocol"):
        rows = [
            row for row in results.where(protocol=protocol, failed=worst) if row["after_s"] != -1
        ]
        part = Results(results.scale, rows)
        axes.plot(part.numbers("after_s"), part.numbers(column), marker=".", label=str(protocol))
    axes.legend()
    return Plot(column, f"After {worst:.0%} of the nodes failed at once.", figure)


def _degree_plot(results: Results) -> Plot:
    figure, axes = new_figure("", "value before any failure")
    columns = ("out_degree_mean", "in_degree_deviation", "clustering", "path_length", "diameter")
    protocols = results.distinct("protocol")
    for offset, protocol in enumerate(protocols):
        rows = results.where(protocol=protocol, after_s=-1)
        heights = [float(np.mean(rows.numbers(column))) for column in columns]
        width = 0.8 / len(protocols)
        places = [index + width * offset for index in range(len(columns))]
        bars = axes.bar(places, heights, width=0.95 * width, label=str(protocol))
        axes.bar_label(bars, fmt="%.2g", fontsize=5)
    axes.set_xticks([index + 0.4 for index in range(len(columns))])
    axes.set_xticklabels([column.replace("_", "\n") for column in columns], fontsize=8)
    axes.legend()
    return Plot("shape", "The overlays at rest.", figure)
