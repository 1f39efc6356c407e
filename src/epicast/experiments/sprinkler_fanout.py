"""Claim S2: what fanout and shuffle time do to the throughput of three regions of agents.

Figure 5(b) of Sprinkler: 864 k events a second come to each of three proxies; how many become
complete, that is reach all agents of all regions? `sprinkler_region` says what is simulated and
which choices are ours. Not measured are the first 300 ms of load.
"""

from __future__ import annotations

from collections.abc import Sequence

from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.plotting import new_figure
from epicast.experiments.results import Results
from epicast.experiments.sprinkler_region import PAPER_RATE, REGIONS, Region, Setting

_LOAD = len(REGIONS) * PAPER_RATE
_PAPER_BEST = 4
_NEAR = 0.03
"""Throughputs that differ by less are the same: about what another seed changes."""
_SHORT_MS = 30.0
"""The shuffle time of the paper's other simulations."""


class SprinklerFanout(Experiment):
    name = "sprinkler-fanout"
    title = "Throughput of a region by fanout and shuffle time"
    claim_ids = ("S2",)

    def points(self, scale: Scale) -> Sequence[Parameters]:
        fanouts: tuple[int, ...]
        shuffles: tuple[int, ...]
        if scale is Scale.SMOKE:
            agents, fanouts, shuffles, batch_ms, measured_ms = 10, (2, 4, 8), (30, 300), 20.0, 400.0
        else:
            agents, batch_ms, measured_ms = 1000, 10.0, 700.0
            fanouts, shuffles = (2, 3, 4, 5, 6, 8), (30, 100, 300)
            if scale is Scale.BEYOND:
                agents, fanouts, shuffles = 4000, (3, 4, 5), (30,)
        return [
            {"fanout": fanout, "shuffle_ms": float(shuffle), "agents": agents,
             "rate": PAPER_RATE, "batch_ms": batch_ms, "measured_ms": measured_ms}
            for shuffle in shuffles
            for fanout in fanouts
        ]  # fmt: skip

    def run(self, parameters: Parameters, seed: int) -> Row:
        return simulate(parameters, seed)

    def claims(self, results: Results) -> Sequence[Claim]:
        return [_judge(results)]

    def plots(self, results: Results) -> Sequence[Plot]:
        return [
            _curves(results, "shuffle_ms", "fanout", "shuffle time (ms)"),
            _curves(results, "fanout", "shuffle_ms", "fanout"),
        ]


def simulate(parameters: Parameters, seed: int) -> Row:
    """One point of this experiment or the next: the parameters are those of a `Setting`."""
    setting = Setting(
        agents=int(parameters["agents"] or 0),
        fanout=int(parameters["fanout"] or 0),
        shuffle_ms=float(parameters["shuffle_ms"] or 0),
        rate=float(parameters["rate"] or 0),
        batch_ms=float(parameters["batch_ms"] or 0),
        measured_ms=float(parameters["measured_ms"] or 0),
    )
    region = Region(setting, seed)
    region.run()
    return region.metrics()


def _by(results: Results, name: str, **conditions: float) -> dict[float, float]:
    rows = results.where(**conditions)
    return dict(zip(rows.numbers(name), rows.numbers("complete_per_s"), strict=True))


def _judge(results: Results) -> Claim:
    shuffles = sorted(set(results.numbers("shuffle_ms")))
    short, long = shuffles[0], shuffles[-1]
    by_fanout = _by(results, "fanout", shuffle_ms=short)
    best = max(by_fanout, key=lambda fanout: by_fanout[fanout])
    top, widest, narrowest = by_fanout[best], max(by_fanout), min(by_fanout)
    near_best = by_fanout[_PAPER_BEST] >= (1 - _NEAR) * top
    wide_loses = by_fanout[widest] < (1 - _NEAR) * top
    narrow = _by(results, "shuffle_ms", fanout=narrowest)
    slow_loses = narrow[long] < (1 - _NEAR) * narrow[short]
    means = dict(
        zip(
            results.where(shuffle_ms=short).numbers("fanout"),
            results.where(shuffle_ms=short).numbers("delivered_per_s"),
            strict=True,
        )
    )
    return Claim(
        id="S2",
        paper="best throughput at fanout 4; larger fanouts exhaust the agents' uplinks; long "
        "shuffle times lose throughput, too",
        ours=f"best at fanout {best:g}; complete at shuffle time {short:g} ms, of "
        f"{_LOAD / 1e6:.2f} M events/s: "
        + ", ".join(f"fanout {f:g}: {rate / 1e6:.2f} M" for f, rate in by_fanout.items())
        + f"; fanout {narrowest:g} at {long:g} ms: {narrow[long] / 1e6:.2f} M",
        holds=near_best and wide_loses and slow_loses,
        detail=f"holds if fanout {_PAPER_BEST} comes within {_NEAR:.0%} of the best, the largest "
        "fanout does not, and at the smallest the longest shuffle time loses; complete is what "
        "every agent of every region has; an agent on average gets, in the same order, "
        + ", ".join(f"{rate / 1e6:.2f} M" for rate in means.values())
        + "; single proxies instead of chains of three, inter-region latencies ours",
    )


def _curves(results: Results, x: str, family: str, label: str) -> Plot:
    figure, axes = new_figure(label, "million events/s complete")
    for value in results.distinct(family):
        curve = results.where(**{family: value})
        rates = [rate / 1e6 for rate in curve.numbers("complete_per_s")]
        name = f"fanout {value}" if family == "fanout" else f"shuffle time {value:g} ms"
        axes.plot(curve.numbers(x), rates, marker="o", label=name)
    axes.axhline(_LOAD / 1e6, color="0.6", linewidth=0.8, label="load")
    axes.set_ylim(bottom=0)
    axes.legend()
    agents = len(REGIONS) * int(results.numbers("agents")[0])
    return Plot(
        f"throughput_by_{x.removesuffix('_ms')}",
        f"Events that reach all {agents:,} agents.",
        figure,
    )
