"""Claim S3: latency and throughput of three regions of agents as the load rises.

Figure 6 of Sprinkler: from 1/6 to 11/6 of what its prototype could do, at a shuffle time of 30 ms.
Latency is from the local proxy to the last agent of all regions. Done twice: with the paper's
maximum, and with what our own proxies can do, measured on real processes by `sprinkler-processes`.
"""

from __future__ import annotations

from collections.abc import Sequence

from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.plotting import new_figure
from epicast.experiments.results import Results
from epicast.experiments.sprinkler_fanout import simulate
from epicast.experiments.sprinkler_region import PAPER_RATE, REGIONS

OUR_RATE = 2_000_000
"""Events per second and proxy of three real ones, rounded; see `sprinkler-processes`."""
_SIXTHS = (1, 3, 5, 7, 9, 11)
_SHUFFLE_MS = 30.0
_PAPER_LATENCY_MS = 300.0
_KEEPS_UP = 0.9
"""Share of the load that becomes complete in the time measured, from which it is not saturated."""
_NAMES = {PAPER_RATE: "paper's maximum", OUR_RATE: "our maximum"}


class SprinklerLoad(Experiment):
    name = "sprinkler-load"
    title = "Latency and throughput of a region as the load rises"
    claim_ids = ("S3",)

    def points(self, scale: Scale) -> Sequence[Parameters]:
        runs: list[tuple[int, int, tuple[int, ...]]]
        if scale is Scale.SMOKE:
            agents, batch_ms, measured_ms = 10, 20.0, 400.0
            runs = [(4, PAPER_RATE, (1, 5, 11)), (4, OUR_RATE, (1, 5, 11))]
        else:
            agents, batch_ms, measured_ms = 1000, 10.0, 700.0
            runs = [(4, PAPER_RATE, _SIXTHS), (3, PAPER_RATE, _SIXTHS), (4, OUR_RATE, _SIXTHS)]
            if scale is Scale.BEYOND:
                agents, runs = 4000, [(4, OUR_RATE, (1, 3, 5))]
        return [
            {"fanout": fanout, "maximum": maximum, "sixths": sixths, "agents": agents,
             "shuffle_ms": _SHUFFLE_MS, "batch_ms": batch_ms, "measured_ms": measured_ms}
            for fanout, maximum, loads in runs
            for sixths in loads
        ]  # fmt: skip

    def run(self, parameters: Parameters, seed: int) -> Row:
        rate = float(parameters["maximum"] or 0) * int(parameters["sixths"] or 0) / 6
        found = simulate({**parameters, "rate": rate}, seed)
        return {"load_per_s": len(REGIONS) * rate, **found}

    def claims(self, results: Results) -> Sequence[Claim]:
        return [_judge(results)]

    def plots(self, results: Results) -> Sequence[Plot]:
        return [_latency_plot(results), _origins_plot(results)]


def _series(results: Results) -> list[tuple[int, int, Results]]:
    """Fanout, maximum and the rows of both, by load."""
    columns = zip(results.numbers("fanout"), results.numbers("maximum"), strict=True)
    pairs = dict.fromkeys((int(fanout), int(maximum)) for fanout, maximum in columns)
    return [(f, m, results.where(fanout=f, maximum=m)) for f, m in pairs]


def _before_saturation(series: Results) -> list[Row]:
    """The loads up to the first that does not become complete as fast as it comes."""
    kept: list[Row] = []
    for row in series:
        if float(row["complete_per_s"] or 0) < _KEEPS_UP * float(row["load_per_s"] or 0):
            break
        kept.append(row)
    return kept


def _judge(results: Results) -> Claim:
    texts, verdicts = [], []
    for fanout, maximum, series in _series(results):
        kept = _before_saturation(series)
        latencies = [float(row["latency_ms"] or 0) for row in kept]
        verdicts.append(bool(latencies) and max(latencies) < _PAPER_LATENCY_MS)
        knee = float(kept[-1]["load_per_s"] or 0) / 1e6 if kept else 0.0
        texts.append(
            f"fanout {fanout}, {_NAMES.get(maximum, maximum)}: keeps up to {knee:.2f} M events/s "
            f"of {max(series.numbers('load_per_s')) / 1e6:.2f} M, "
            f"{', '.join(f'{value:.0f}' for value in latencies)} ms until then"
        )
    agents = len(REGIONS) * int(results.numbers("agents")[0])
    return Claim(
        id="S3",
        paper="latency to all 3000 agents generally below 300 ms before saturation",
        ours="; ".join(texts),
        holds=verdicts[0],
        detail=f"judged by the first series, {agents:,} agents: mean latency below "
        f"{_PAPER_LATENCY_MS:g} ms at every load up to the knee, the last at which "
        f"{_KEEPS_UP:.0%} of the load becomes complete while it is measured; single proxies, "
        "inter-region latencies ours",
    )


def _latency_plot(results: Results) -> Plot:
    figure, axes = new_figure("million events/s complete", "latency to the last agent (ms)")
    for fanout, maximum, series in _series(results):
        rates = [rate / 1e6 for rate in series.numbers("complete_per_s")]
        label = f"fanout {fanout}, {_NAMES.get(maximum, maximum)}"
        axes.plot(rates, series.numbers("latency_ms"), marker="o", label=label)
    axes.axhline(_PAPER_LATENCY_MS, color="0.6", linewidth=0.8, label="paper: below this")
    axes.set_ylim(bottom=0)
    axes.legend()
    return Plot("latency", "Mean latency against throughput, load rising along a line.", figure)


def _origins_plot(results: Results) -> Plot:
    figure, axes = new_figure("million events/s offered", "latency to the last agent (ms)")
    fanout, maximum, series = _series(results)[0]
    loads = [load / 1e6 for load in series.numbers("load_per_s")]
    for index, region in enumerate(REGIONS):
        axes.plot(loads, series.numbers(f"latency_{index}_ms"), marker="o", label=region)
    axes.set_ylim(bottom=0)
    axes.legend()
    caption = f"By region of origin, fanout {fanout}, {_NAMES.get(maximum, maximum)}."
    return Plot("latency_by_origin", caption, figure)
