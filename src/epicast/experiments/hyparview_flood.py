"""Claim B1: what flooding a HyParView overlay costs in duplicates, by view size.

Figure 4.3 of Matos's dissertation: 512 processes, 500 messages at 5 a second, expansion factor 2.
For every process we take the duplicates it got per message, on average over the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from epicast.core import EventBatch
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.overlays import SECOND, grow_overlay
from epicast.experiments.results import Results
from epicast.protocols.catalog import stack_factory
from epicast.protocols.hyparview import HyParViewConfig
from epicast.reporting import new_figure
from epicast.sim.checkers import overlay

_SIZES = {Scale.SMOKE: (96, 20, 1), Scale.PAPER: (512, 500, 3), Scale.BEYOND: (10_000, 50, 1)}
_EXPANSION = 2.0
_MESSAGES_PER_SECOND = 5
_PAPER_MEDIANS = {4: 1, 10: 7}
"""View size: what half of the processes exceed."""


class HyParViewFlood(Experiment):
    name = "hyparview-flood"
    title = "Duplicates of flooding over HyParView, by active view size"
    claim_ids = ("B1",)

    def points(self, scale: Scale) -> Sequence[Parameters]:
        nodes, messages, repetitions = _SIZES[scale]
        views = (4, 10) if scale is Scale.SMOKE else (4, 6, 8, 10)
        return [
            {"view": view, "nodes": nodes, "messages": messages, "repetition": repetition}
            for repetition in range(repetitions)
            for view in views
        ]

    def run(self, parameters: Parameters, seed: int) -> Sequence[Row]:
        view, nodes, messages = (int(parameters[k] or 0) for k in ("view", "nodes", "messages"))
        config = HyParViewConfig(active_view=view, expansion_factor=_EXPANSION)
        factory = stack_factory(["hyparview", "flood"], {"hyparview": config})
        simulation = grow_overlay(factory, nodes, seed)
        degrees = dict(
            zip(overlay(simulation).ids.tolist(), overlay(simulation).out_degrees(), strict=True)
        )
        source = simulation.nodes[1]
        for sequence in range(1, messages + 1):
            batch = EventBatch.build(source.id, sequence, [bytes(1024)])
            at = simulation.now + (sequence - 1) * SECOND // _MESSAGES_PER_SECOND
            simulation.scheduler.at(at, simulation.publish, source, batch)
        simulation.run_for(messages * SECOND // _MESSAGES_PER_SECOND + 5 * SECOND)
        rows = []
        for node in simulation.live_nodes():
            statistics = node.protocol.statistics()
            rows.append(
                {
                    "node": node.id,
                    "degree": int(degrees[node.id]),
                    "delivered": int(statistics["flood.delivered"]),
                    "duplicates_per_message": statistics["flood.duplicates"] / messages,
                }
            )
        return rows

    def claims(self, results: Results) -> Sequence[Claim]:
        found = {view: self._median(results, view) for view in _PAPER_MEDIANS}
        complete = all(row["delivered"] == row["messages"] for row in results)
        return [
            Claim(
                id="B1",
                paper="half of the processes get more than 1 duplicate per message at view 4, "
                "more than 7 at view 10",
                ours=", ".join(f"median {value:.2f} at view {v}" for v, value in found.items()),
                holds=complete and all(found[v] > least for v, least in _PAPER_MEDIANS.items()),
                detail="median over the processes of their mean duplicates per message; "
                + ("every message reached every process" if complete else "messages were missed"),
            )
        ]

    def plots(self, results: Results) -> Sequence[Plot]:
        figure, axes = new_figure("duplicates per message", "share of processes")
        for view in results.distinct("view"):
            values = sorted(results.where(view=view).numbers("duplicates_per_message"))
            shares = [(i + 1) / len(values) for i in range(len(values))]
            axes.step(values, shares, where="post", label=f"view {view}")
        for view, least in _PAPER_MEDIANS.items():
            axes.plot([least], [0.5], "kx")
            axes.annotate(f"paper: above this at view {view}", (least, 0.5), fontsize=7,
                          xytext=(4, -10), textcoords="offset points")  # fmt: skip
        axes.legend()
        degree_figure, degree_axes = new_figure("active view size reached", "processes")
        for view in results.distinct("view"):
            degrees = [int(value) for value in results.where(view=view).numbers("degree")]
            counts = {d: degrees.count(d) for d in range(min(degrees), max(degrees) + 1)}
            degree_axes.plot(list(counts), list(counts.values()), marker=".", label=f"view {view}")
        degree_axes.legend()
        return [
            Plot("duplicates", "Duplicates per message, cumulative over the processes.", figure),
            Plot("degrees", "Active view sizes with expansion factor 2.", degree_figure),
        ]

    @staticmethod
    def _median(results: Results, view: int) -> float:
        return median(results.where(view=view).numbers("duplicates_per_message"))
