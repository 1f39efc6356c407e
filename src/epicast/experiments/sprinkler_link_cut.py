"""Claim S4: four regions, and the link between two of them is taken out for 22 seconds.

Section 5.3 and figure 7 of Sprinkler. Of its topology only the 15 ms of the failing link are left;
the other latencies are ours, and so is how fast advertisements come: once a second as the paper's
curve suggests, and every 100 ms as our proxies do by default. A link fails in two ways: it swallows
what it is given, so that nobody is told until connections give up; or connections break at once.

What is shown over time is what agents get, and the latency of events by when they were published:
until the last agent of all regions has them. The bar: events of the far region come again within
the period of advertisements, or C divided by the events missed, and a round trip by way of another
region; what was missed is made up for while the link is still out; nothing is lost.

An outage is over in a fifth of a second, so a tenth is what is looked at at a time. In the paper it
takes a second, and the better part of five until what was missed has come. The last agent to get
something may be late at any time, twice as late as usual in one tenth of thirty: what is usual is
the median of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile
from math import sqrt
from statistics import mean, median

from msgspec import Struct

from epicast.core import EventBatch, NodeId
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.overlays import MILLISECOND, SECOND
from epicast.experiments.results import Results
from epicast.experiments.sprinkler_region import Region, Setting, Topology
from epicast.protocols.sprinkler import ProxyConfig
from epicast.reporting import new_figure

REGIONS = ("region-0", "region-1", "region-2", "region-3")
_FAILED_MS = 15
TOPOLOGY = Topology(
    REGIONS,
    {
        (REGIONS[0], REGIONS[1]): 12,
        (REGIONS[0], REGIONS[2]): 30,
        (REGIONS[0], REGIONS[3]): 36,
        (REGIONS[1], REGIONS[2]): 28,
        (REGIONS[1], REGIONS[3]): 33,
        (REGIONS[2], REGIONS[3]): _FAILED_MS,
    },
)
_FAR, _NEAR = 2, 3
"""The ends of the link. Events of the first are watched at the second."""
_RATE = 100_000.0
_STEP_NS = SECOND // 10

_LONGER_NS = SECOND
"""The load goes on after what is looked at: with nothing behind them, the last events of a load
take longer than any before."""
_DRAIN_NS = 5 * SECOND
_SILENT, _BROKEN = "swallows", "breaks"
_FASTER = 1.05
_HARDLY = 1.25


class Times(Struct, frozen=True):
    """In seconds of the load."""

    cut: float
    mended: float
    end: float


_TIMES = {
    Scale.SMOKE: Times(2, 5, 7),
    Scale.PAPER: Times(19, 41, 50),
    Scale.BEYOND: Times(19, 41, 50),
}


class SprinklerLinkCut(Experiment):
    name = "sprinkler-link-cut"
    title = "Four regions, a link of which fails and comes back"
    claim_ids = ("S4",)

    def points(self, scale: Scale) -> Sequence[Parameters]:
        agents = {Scale.SMOKE: 2, Scale.PAPER: 50, Scale.BEYOND: 200}[scale]
        times = _TIMES[scale]
        periods_ms = (100.0,) if scale is Scale.SMOKE else (1000.0, 100.0)
        return [
            {"advertise_ms": advertise_ms, "link": link, "agents": agents, "cut_s": times.cut,
             "mended_s": times.mended, "end_s": times.end}
            for advertise_ms in periods_ms
            for link in (_SILENT, _BROKEN)
        ]  # fmt: skip

    def run(self, parameters: Parameters, seed: int) -> Sequence[Row]:
        times = Times(*(float(parameters[name] or 0) for name in ("cut_s", "mended_s", "end_s")))
        silent = parameters["link"] == _SILENT
        setting = Setting(
            agents=int(parameters["agents"] or 0),
            fanout=4,
            shuffle_ms=30.0,
            rate=_RATE,
            topology=TOPOLOGY,
            advertise_ms=float(parameters["advertise_ms"] or 0),
            # Longer than the outage: nobody is told of it by a broken connection.
            breaks_after_ms=1e6 if silent else 0.0,
        )
        return _Outage(setting, times, seed).rows()

    def claims(self, results: Results) -> Sequence[Claim]:
        return [_judge(results)]

    def plots(self, results: Results) -> Sequence[Plot]:
        return [_throughput_plot(results), _latency_plot(results)]


class _Outage:
    def __init__(self, setting: Setting, times: Times, seed: int) -> None:
        self._region = Region(setting, seed)
        self._simulation = self._region.simulation
        self._times = times
        self._watched = self._region.geoplex.agents[REGIONS[_NEAR]][0].id
        self._seen: list[int] = []
        """When the watched agent got something of the far region."""
        self._simulation.on_topic_delivery = self._note
        begin = self._begin = self._simulation.now
        end = begin + round(times.end * SECOND)
        ends = {self._region.geoplex.proxies[REGIONS[place]].id for place in (_FAR, _NEAR)}
        network = self._simulation.network

        def is_cut(source: NodeId, target: NodeId) -> bool:
            return {source, target} == ends

        self._region.put_load(begin, end + _LONGER_NS)
        self._simulation.run_until(begin + round(times.cut * SECOND))
        network.cut(is_cut)
        self._simulation.run_until(begin + round(times.mended * SECOND))
        network.mend(is_cut)
        self._simulation.run_until(end + _LONGER_NS + _DRAIN_NS)

    def _note(self, now: int, node: NodeId, number: int, batch: EventBatch) -> None:
        self._region.arrivals.note(now, node, number, batch)
        if node == self._watched and number == _FAR + 1:
            self._seen.append(now)

    def rows(self) -> list[Row]:
        """One per step, each with what is true of the whole run."""
        now, arrivals = self._simulation.now, self._region.arrivals
        end = self._begin + round(self._times.end * SECOND)
        whole: Row = {
            "missing": arrivals.missing,
            "stalled_ms": self._stalled_ns() / MILLISECOND,
            "bound_ms": self._bound_ms(),
        }
        found: list[Row] = []
        for begin in range(self._begin, end, _STEP_NS):
            metrics = arrivals.metrics(begin, begin + _STEP_NS, now)
            kept = {
                name: value
                for name, value in metrics.items()
                if name == "delivered_per_s" or name.startswith("latency_")
            }
            found.append({"t_s": (begin - self._begin) / SECOND, **kept, **whole})
        return found

    def _stalled_ns(self) -> int:
        """The longest the watched agent got nothing from the far region, around the cut."""
        cut = self._begin + round(self._times.cut * SECOND)
        mended = self._begin + round(self._times.mended * SECOND)
        times = [at for at in self._seen if cut - SECOND <= at < mended]
        return max(later - earlier for earlier, later in pairwise([*times, mended]))

    def _bound_ms(self) -> float:
        """The period of advertisements, or until so much is missed that C / missed is shorter than
        the silence, whichever is longer; and a round trip by way of another region."""
        setting = self._region.setting
        hysteresis_ms = 1000 * sqrt(ProxyConfig().hysteresis / setting.rate)
        ways = (
            TOPOLOGY.latencies_ms[REGIONS[other], REGIONS[_FAR]]
            + TOPOLOGY.latencies_ms[REGIONS[other], REGIONS[_NEAR]]
            for other in (0, 1)
        )
        return max(setting.advertise_ms, hysteresis_ms) + 2 * min(ways)


def _series(results: Results) -> list[tuple[str, Results]]:
    return [
        (f"link {link}, advertised every {float(period or 0):g} ms",
         results.where(advertise_ms=period, link=link))
        for period in results.distinct("advertise_ms")
        for link in results.distinct("link")
    ]  # fmt: skip


def _between(series: Results, begin: float, end: float, name: str) -> list[float]:
    return [float(row[name] or 0) for row in series if begin <= float(row["t_s"] or 0) < end]


class _Seen(Struct, frozen=True):
    """Of one run: what the paper says of its own."""

    dips: bool
    recovers: bool
    overshoots: bool
    spikes: bool
    settles_higher: bool
    returns: bool
    others_unharmed: bool
    missing: int
    stalled_ms: float
    bound_ms: float
    drained_s: float
    """From the cut on, until the last has come that takes longer than what comes later in the
    outage."""

    @property
    def looks_alike(self) -> bool:
        return all((self.dips, self.recovers, self.overshoots, self.spikes, self.settles_higher,
                    self.returns, self.others_unharmed))  # fmt: skip

    @property
    def survived(self) -> bool:
        return self.stalled_ms <= self.bound_ms and self.recovers and not self.missing


def _look(series: Results) -> _Seen:
    first = next(iter(series))
    cut, mended, end = (float(first[name] or 0) for name in ("cut_s", "mended_s", "end_s"))
    far, other = f"latency_{_FAR}_ms", "latency_0_ms"
    usual = mean(_between(series, cut - 1, cut, "delivered_per_s"))
    outage = _between(series, cut, mended, "delivered_per_s")
    before, during, after = (
        median(_between(series, end_s - 1, end_s, far)) for end_s in (cut, mended, end)
    )
    late = list(takewhile(lambda ms: ms > _HARDLY * during, _between(series, cut, mended, far)))
    return _Seen(
        dips=min(_between(series, cut, cut + 3, "delivered_per_s")) < usual / _FASTER,
        recovers=mean(_between(series, mended - 1, mended, "delivered_per_s")) > usual / _FASTER,
        overshoots=max(outage) > usual * _FASTER,
        spikes=max(_between(series, cut - 1, cut + 2, far)) > 2 * before,
        settles_higher=before < during < 2 * before,
        returns=after < (before + during) / 2,
        others_unharmed=mean(_between(series, cut, mended, other))
        < _HARDLY * mean(_between(series, cut - 1, cut, other)),
        missing=int(first["missing"] or 0),
        stalled_ms=float(first["stalled_ms"] or 0),
        bound_ms=float(first["bound_ms"] or 0),
        drained_s=len(late) * _STEP_NS / SECOND + late[-1] / 1000 if late else 0.0,
    )


def _judge(results: Results) -> Claim:
    seen = [(name, _look(series)) for name, series in _series(results)]
    _, judged = seen[0]
    said = {
        "throughput dips": judged.dips, "recovers": judged.recovers,
        "overshoots while catching up": judged.overshoots,
        "latency of region 2 spikes": judged.spikes,
        "settles slightly higher": judged.settles_higher,
        "returns after the repair": judged.returns,
        "region 0 hardly notices": judged.others_unharmed,
    }  # fmt: skip
    return Claim(
        id="S4",
        paper="throughput dips at the cut, recovers about a second later by way of other regions, "
        "overshoots while catching up; latency of region 2 spikes, settles slightly higher, "
        "returns after the repair; region 0 hardly notices; nothing lost",
        ours="; ".join(
            f"{name}: stalled for {one.stalled_ms:.0f} ms (bound {one.bound_ms:.0f}), caught up "
            f"after {one.drained_s:.1f} s, {one.missing} lost"
            for name, one in seen
        ),
        holds=judged.looks_alike and all(one.survived for _, one in seen),
        detail=f"the course of things judged where the {seen[0][0]}: "
        + ", ".join(f"{what}: {'yes' if yes else 'no'}" for what, yes in said.items())
        + "; latencies between regions and the period of advertisements are ours",
    )


def _throughput_plot(results: Results) -> Plot:
    figure, axes = new_figure("seconds", "thousand events/s per agent")
    for name, series in _series(results):
        rates = [rate / 1e3 for rate in series.numbers("delivered_per_s")]
        axes.plot(series.numbers("t_s"), rates, label=name)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7)
    return Plot("throughput", "What agents get while a link is out.", figure)


def _latency_plot(results: Results) -> Plot:
    figure, axes = new_figure("seconds", "latency to the last agent (ms)")
    name, series = _series(results)[0]
    for region in (0, _FAR):
        axes.plot(
            series.numbers("t_s"), series.numbers(f"latency_{region}_ms"), label=REGIONS[region]
        )
    axes.set_yscale("log")
    axes.legend()
    return Plot("latency", f"By region of origin and time of publication; {name}.", figure)
