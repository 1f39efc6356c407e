"""Claim S3: latency and throughput of three regions of agents as the load rises.

Figure 6 of Sprinkler: from 1/6 to 11/6 of what its prototype could do, at a shuffle time of 30 ms.
Latency is from the local proxy to the last agent of all regions. Done twice: with the paper's
maximum, and with one of our own, `OUR_RATE`.
"""

from __future__ import annotations

from collections.abc import Sequence

from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results
from epicast.experiments.sprinkler_fanout import simulate
from epicast.experiments.sprinkler_region import (
    BATCH_MS,
    PAPER_RATE,
    REGIONS,
)
from epicast.reporting import new_figure

OUR_RATE = 1_750_000
"""Events per second and proxy: three of them then take the 5.25 M that `python -m bench geo` found
them to take on the machine this was written on."""
_FANOUT = 4
_SHUFFLE_MS = 30.0
_PAPER_LATENCY_MS = 300.0
_KEEPS_UP = 0.95
"""Share of the load that agents get on average in the time measured, below which it saturates: what
waits somewhere becomes more all the time."""
_NAMES = {PAPER_RATE: "paper's maximum", OUR_RATE: "our maximum"}


class SprinklerLoad(Experiment):
    name = "sprinkler-load"
    title = "Latency and throughput of a region as the load rises"
    claim_ids = ("S3",)

    def points(self, scale: Scale) -> Sequence[Parameters]:
        sixths: tuple[int, ...] = (1, 3, 5, 7, 9, 11)
        agents, measured_ms = 1000, 500.0
        maxima = [PAPER_RATE, OUR_RATE]
        if scale is Scale.SMOKE:
            sixths, agents, measured_ms = (1, 5, 11), 10, 300.0
        elif scale is Scale.BEYOND:
            sixths, agents, maxima = (1, 3, 5), 4000, maxima[1:]
        return [
            {"maximum": maximum, "sixths": load, "fanout": _FANOUT, "agents": agents,
             "shuffle_ms": _SHUFFLE_MS, "batch_ms": BATCH_MS, "measured_ms": measured_ms}
            for maximum in maxima
            for load in sixths
        ]  # fmt: skip

    def run(self, parameters: Parameters, seed: int) -> Row:
        rate = float(parameters["maximum"] or 0) * int(parameters["sixths"] or 0) / 6
        found = simulate({**parameters, "rate": rate}, seed)
        return {"load_per_s": len(REGIONS) * rate, **found}

    def claims(self, results: Results) -> Sequence[Claim]:
        return [_judge(results)]

    def plots(self, results: Results) -> Sequence[Plot]:
        return [_latency_plot(results), _origins_plot(results)]


def _series(results: Results) -> list[tuple[str, Results]]:
    """The rows of each maximum, by load."""
    return [
        (_NAMES.get(int(maximum), f"maximum {maximum:g}"), results.where(maximum=maximum))
        for maximum in dict.fromkeys(results.numbers("maximum"))
    ]


def _before_saturation(series: Results) -> list[Row]:
    """The loads up to the first that is not delivered as fast as it comes."""
    kept: list[Row] = []
    for row in series:
        if float(row["delivered_per_s"] or 0) < _KEEPS_UP * float(row["load_per_s"] or 0):
            break
        kept.append(row)
    return kept


def _judge(results: Results) -> Claim:
    texts, verdicts = [], []
    for name, series in _series(results):
        kept = _before_saturation(series)
        latencies = [float(row["latency_ms"] or 0) for row in kept]
        verdicts.append(bool(latencies) and max(latencies) < _PAPER_LATENCY_MS)
        knee = float(kept[-1]["load_per_s"] or 0) / 1e6 if kept else 0.0
        texts.append(
            f"{name}: keeps up to {knee:.2f} M events/s "
            f"of {max(series.numbers('load_per_s')) / 1e6:.2f} M, "
            f"{', '.join(f'{value:.0f}' for value in latencies)} ms until then"
        )
    agents = len(REGIONS) * int(results.numbers("agents")[0])
    return Claim(
        id="S3",
        paper="latency to all 3000 agents generally below 300 ms before saturation",
        ours="; ".join(texts),
        holds=verdicts[0],
        detail=f"judged by the {_series(results)[0][0]}, with fanout {_FANOUT} and {agents:,} "
        f"agents: mean latency below {_PAPER_LATENCY_MS:g} ms at every load up to the knee, the "
        f"last at which agents get {_KEEPS_UP:.0%} of the load while it comes; single proxies, "
        "inter-region latencies ours",
    )


def _latency_plot(results: Results) -> Plot:
    figure, axes = new_figure("million events/s delivered", "latency to the last agent (ms)")
    for name, series in _series(results):
        rates = [rate / 1e6 for rate in series.numbers("delivered_per_s")]
        axes.plot(rates, series.numbers("latency_ms"), marker="o", label=name)
    axes.axhline(_PAPER_LATENCY_MS, color="0.6", linewidth=0.8, label="paper: below this")
    axes.set_ylim(bottom=0)
    axes.legend()
    return Plot("latency", "Mean latency against throughput, load rising along a line.", figure)


def _origins_plot(results: Results) -> Plot:
    figure, axes = new_figure("million events/s offered", "latency to the last agent (ms)")
    name, series = _series(results)[0]
    loads = [load / 1e6 for load in series.numbers("load_per_s")]
    for index, region in enumerate(REGIONS):
        axes.plot(loads, series.numbers(f"latency_{index}_ms"), marker="o", label=region)
    axes.set_ylim(bottom=0)
    axes.legend()
    return Plot("latency_by_origin", f"By region of origin; {name}.", figure)
