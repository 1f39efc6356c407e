"""Claim L2: how long until random views fall apart, computed (equations 4 and 5, Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, log1p, log10

from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results
from epicast.protocols.lpbcast.analysis import partition_chances, rounds_to_partition
from epicast.reporting import new_figure

_SIZES = {
    Scale.SMOKE: (50, 125),
    Scale.PAPER: (20, 30, 50, 75, 125, 250, 500, 1000),
    Scale.BEYOND: (1000, 10_000, 100_000, 1_000_000),
}
_PROBABILITY = 0.9
_PAPER_ROUNDS = 1e12
_SHOWN = 12
"""Sizes of a partition that are listed."""


class LpbcastPartition(Experiment):
    name = "lpbcast-partition"
    title = "lpbcast: probability that uniform views fall apart"
    claim_ids = ("L2",)

    def points(self, scale: Scale) -> Sequence[Parameters]:
        return [{"nodes": nodes, "view": view} for nodes in _SIZES[scale] for view in (2, 3, 4)]

    def run(self, parameters: Parameters, seed: int) -> Sequence[Row]:
        nodes, view = int(parameters["nodes"] or 0), int(parameters["view"] or 0)
        rounds = rounds_to_partition(nodes, view, _PROBABILITY)
        chances = partition_chances(nodes, view)[:_SHOWN].tolist()
        return [
            {"size": view + 1 + index, "chance": chance, "rounds_to_partition": rounds}
            for index, chance in enumerate(chances)
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        rounds = rounds_to_partition(50, 3, _PROBABILITY)
        # Four processes that know only each other, whether or not others know them.
        smallest = comb(50, 4) / comb(49, 3) ** 4
        isolated = log1p(-_PROBABILITY) / log1p(-smallest)
        return [
            Claim(
                id="L2",
                paper="n = 50, l = 3: about 1e12 rounds to partition with probability 0.9",
                ours=f"{rounds:.2e} rounds",
                holds=abs(log10(rounds / _PAPER_ROUNDS)) < 0.5,
                detail="by equations (4) and (5) as printed. The paper's figure is that of four "
                "processes which know only each other, without the condition that nobody knows "
                f"them (the last factor of (4)): {isolated:.2e} rounds",
            )
        ]

    def plots(self, results: Results) -> Sequence[Plot]:
        figure, axes = new_figure("size of the partition", "probability in a round")
        for nodes in results.distinct("nodes"):
            rows = results.where(nodes=nodes, view=3)
            axes.semilogy(rows.numbers("size"), rows.numbers("chance"), ".-", label=f"n = {nodes}")
        axes.legend()
        return [Plot("partition", "Partitions with views of 3 (Figure 4).", figure)]
