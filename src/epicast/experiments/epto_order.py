"""Claims E1, E2 and E3: order with EpTO, without it, and what it costs.

Figures 5.8 and 5.9: 100, 200 and 500 processes, publication rates 0.01, 0.1 and 0.5, both clocks.
With a global clock EpTO waits for a round more than the paper says; some runs do without it, and
are told apart by `extra_rounds`. Beyond: 5,000 processes at rate 0.05.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import isclose
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scalar, Scale
from epicast.experiments.ordered_rounds import PERIOD_TICKS, OrderedSystem, setting_of
from epicast.experiments.results import Results
from epicast.experiments.verdicts import in_parts
from epicast.protocols.epto.sizing import ttl_for
from epicast.reporting import new_figure

_CLOCKS = ("global", "logical")
_POINTS: dict[Scale, list[tuple[int, float, int, int]]] = {
    Scale.SMOKE: [(20, 0.1, 12, 1), (60, 0.1, 12, 1), (20, 0.5, 12, 1), (60, 0.5, 12, 1)],
    Scale.PAPER: [(n, rate, 40, 20) for n in (100, 200, 500) for rate in (0.01, 0.1, 0.5)],
    Scale.BEYOND: [(5000, 0.05, 15, 1)],
}
"""Processes, rate, rounds, repetitions."""
_NOTHING_ADDED: dict[Scale, list[tuple[int, float, int, int]]] = {
    Scale.SMOKE: [(60, 0.5, 12, 1)],
    Scale.PAPER: [(n, 0.5, 40, 5) for n in (100, 200, 500)],
    Scale.BEYOND: [],
}
"""The same, for a global clock without the round that is added to the paper's wait."""
_WATCHED = 40
"""Processes whose spontaneous order is computed."""
_PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_PLOTTED_RATE = 0.1
"""Whose distributions of delays are drawn, or the rate nearest to it."""
_FIVEFOLD = 5
_STYLES = {"delay": "-", "unordered_delay": "--"}


class EptoOrder(Experiment):
    name = "epto-order"
    title = "EpTO: order with and without it, and the delay it costs"
    claim_ids = ("E1", "E2", "E3")

    def points(self, scale: Scale) -> Sequence[Parameters]:
        judged: list[Parameters] = [
            {"processes": n, "rate": rate, "clock": clock, "rounds": rounds, "repetition": number}
            for n, rate, rounds, repetitions in _POINTS[scale]
            for clock in _CLOCKS
            for number in range(repetitions)
        ]
        beside: list[Parameters] = [
            {"processes": n, "rate": rate, "clock": "global", "rounds": rounds,
             "repetition": number, "extra_rounds": 0}
            for n, rate, rounds, repetitions in _NOTHING_ADDED[scale]
            for number in range(repetitions)
        ]  # fmt: skip
        return judged + beside

    def run(self, parameters: Parameters, seed: int) -> Row:
        system = OrderedSystem(setting_of(parameters), seed)
        system.run()
        ordered, unordered = system.delays(), system.delays(ordered=False)
        spontaneous = system.spontaneous_order(_WATCHED)
        return {
            "events": system.events,
            "holes": sum(system.holes().values()),
            "violations": system.violations(),
            "spontaneous_best": max(spontaneous, default=1.0),
            "spontaneous_mean": mean(spontaneous) if spontaneous else 1.0,
            "delay": float(ordered.mean()),
            "unordered_delay": float(unordered.mean()),
            "completion": float(system.completion().mean()),
            "unordered_completion": float(system.completion(ordered=False).mean()),
            **_percentiles("delay", ordered),
            **_percentiles("unordered_delay", unordered),
        }

    def claims(self, results: Results) -> Sequence[Claim]:
        judged = results.where(extra_rounds=None)
        return [_spontaneous(judged), _total_order(results), _cost(judged)]

    def plots(self, results: Results) -> Sequence[Plot]:
        judged = results.where(extra_rounds=None)
        return [_mean_plot(judged), *(_distribution_plot(judged, clock) for clock in _CLOCKS)]


def _percentiles(name: str, delays: NDArray[np.float64]) -> dict[str, Scalar]:
    values = np.percentile(delays, _PERCENTILES)
    return {f"{name}_p{p}": float(value) for p, value in zip(_PERCENTILES, values, strict=True)}


def _mean_plot(results: Results) -> Plot:
    figure, axes = new_figure("processes", "mean delay (ticks)")
    for rate in results.distinct("rate"):
        for clock in _CLOCKS:
            found = results.where(rate=rate, clock=clock)
            sizes = sorted({int(n) for n in found.numbers("processes")})
            delays = [mean(found.where(processes=n).numbers("delay")) for n in sizes]
            axes.plot(sizes, delays, ".-", label=f"{clock}, rate {rate}")
    axes.legend()
    return Plot("delay", "Mean delivery delay.", figure)


def _distribution_plot(results: Results, clock: str) -> Plot:
    """Percentiles of the runs, averaged."""
    rate = min(set(results.numbers("rate")), key=lambda rate: abs(rate - _PLOTTED_RATE))
    found = results.where(rate=rate, clock=clock)
    figure, axes = new_figure("delay (ticks)", "deliveries (%)")
    for number, n in enumerate(sorted({int(n) for n in found.numbers("processes")})):
        rows = found.where(processes=n)
        for name, style in _STYLES.items():
            columns = {p: rows.numbers(f"{name}_p{p}") for p in _PERCENTILES}
            curve = {p: mean(values) for p, values in columns.items() if values}
            label = f"{n} processes, {'ordered' if name == 'delay' else 'unordered'}"
            axes.plot(list(curve.values()), list(curve), style, color=f"C{number}", label=label)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 100)
    axes.legend()
    caption = f"Distribution of delays with a {clock} clock at rate {rate:g} (Figure 5.9)."
    return Plot(f"delays-{clock}", caption, figure)


def _spontaneous(results: Results) -> Claim:
    by_rate = {
        rate: max(results.where(rate=rate).numbers("spontaneous_best"))
        for rate in sorted(set(results.numbers("rate")))
    }
    high = [best for rate, best in by_rate.items() if rate > 0.1]
    return Claim(
        id="E1",
        paper="without ordering, above rate 0.1 no process gets even half of the events in order",
        ours="best process: "
        + ", ".join(f"{best:.2f} at rate {rate:g}" for rate, best in by_rate.items()),
        holds=all(best < 0.5 for best in high),
        detail="in order is the longest sequence of events heard of in the order of timestamps"
        + ("" if high else "; no rate above 0.1 was run"),
    )


def _total_order(results: Results) -> Claim:
    judged, printed = results.where(extra_rounds=None), results.where(extra_rounds=0)
    by_clock = ", ".join(
        f"{clock} {int(sum(judged.where(clock=clock).numbers('holes')))}" for clock in _CLOCKS
    )
    return Claim(
        id="E2",
        paper="all processes deliver all events in one order, global and logical clock",
        ours=f"{_lost(judged)}, with a round added to the paper's wait where the clock is global",
        holds=not any(sum(judged.numbers(name)) for name in ("holes", "violations")),
        detail=f"holes by clock: {by_clock}; not the paper's algorithm unmodified: without the "
        "added round (extra_rounds) holes were seen with a global clock (docs/decisions/0021, "
        "which has the other differences too). Without it, as printed, and not judged: "
        + (_lost(printed) if len(printed) else "not run"),
    )


def _lost(rows: Results) -> str:
    holes, violations = (int(sum(rows.numbers(name))) for name in ("holes", "violations"))
    owed = sum(
        a * b for a, b in zip(rows.numbers("events"), rows.numbers("processes"), strict=True)
    )
    return (
        f"{holes} holes and {violations} violations in {owed:,.0f} deliveries owed, "
        f"{len(rows)} runs"
    )


def _cost(results: Results) -> Claim:
    """Judged against the mean time until a process hears of an event: the text says that without
    order what is received first is delivered at once. Which figure of the distributions is meant
    it does not say, so the time until everybody has heard of an event is reported beside it."""
    costs = {
        clock: _ratios(results.where(clock=clock), "delay", "unordered_delay") for clock in _CLOCKS
    }
    by_size, by_rate = _fivefold(results, "processes"), _fivefold(results, "rate")
    growth = (_growth(results, "processes", *by_size), _growth(results, "rate", *by_rate))
    parts = {
        f"2 to 4 x with a {clock} clock": min(found) >= 1.5 and max(found) < 4.5
        for clock, found in costs.items()
    }
    parts["5 x processes or events at most about double it"] = max(growth) < 2.5
    holds, detail = in_parts(parts)
    return Claim(
        id="E3",
        paper="ordering costs 2-4 x the delay of unordered gossip; 5 x processes or events about "
        "double it",
        ours="mean delay over the mean until a process hears of an event (judged): "
        f"{_both(results, 'delay', 'unordered_delay')} "
        f"({min(costs['global']):.2f} to {max(costs['logical']):.2f}); "
        "over the mean until the last process has heard of it (not judged): "
        f"{_both(results, 'delay', 'unordered_completion')}; "
        f"{growth[0]:.2f} x from {by_size[0]:g} to {by_size[1]:g} processes, "
        f"{growth[1]:.2f} x from rate {by_rate[0]:g} to {by_rate[1]:g}",
        holds=holds,
        detail=f"{detail}. Costs must round to 2, 3 or 4 in every run, growth to 2 at most. The "
        "paper measures from broadcast to delivery, and without order delivers what is received "
        "for the first time; which figure of those distributions is 2 to 4 x it leaves open, so "
        "the stricter one is judged. Like for like: last delivery over last hearing "
        f"{_both(results, 'completion', 'unordered_completion')}, 95th percentiles "
        f"{_both(results, 'delay_p95', 'unordered_delay_p95')}. With a logical clock an event "
        "that has made its TTL hops waits for TTL + 1 rounds more, which alone are "
        f"{_least_wait(results):.2f} x the unordered mean. {_implied(by_size)}",
    )


def _both(rows: Results, above: str, below: str) -> str:
    """The mean cost with either clock."""
    found = []
    for clock in _CLOCKS:
        ratios = _ratios(rows.where(clock=clock), above, below)
        found.append(f"{mean(ratios):.2f} x {clock}" if ratios else f"not measured {clock}")
    return ", ".join(found)


def _ratios(rows: Results, above: str, below: str) -> list[float]:
    """Of the rows that have both: those of older sweeps lack some."""
    pairs = zip(rows.column(above), rows.column(below), strict=True)
    return [float(a) / float(b) for a, b in pairs if a is not None and b]


def _least_wait(results: Results) -> float:
    """The rounds that nothing can shorten with a logical clock, over the unordered delay."""
    rows = results.where(clock="logical")
    sizes, delays = rows.numbers("processes"), rows.numbers("unordered_delay")
    return mean(
        (ttl_for(int(size)) + 1) * PERIOD_TICKS / delay
        for size, delay in zip(sizes, delays, strict=True)
    )


def _fivefold(results: Results, column: str) -> tuple[float, float]:
    """The largest two values one of which is five times the other; if there are none, the ends."""
    values = sorted(set(results.numbers(column)))
    pairs = [(a, b) for a, b in combinations(values, 2) if isclose(b / a, _FIVEFOLD)]
    return pairs[-1] if pairs else (values[0], values[-1])


def _growth(results: Results, column: str, low: float, high: float) -> float:
    """How the mean delay grows from one value of a parameter to another."""
    means = {
        value: mean(results.where(**{column: value}).numbers("delay")) for value in (low, high)
    }
    return means[high] / means[low]


def _implied(sizes: tuple[float, float]) -> str:
    low, high = (ttl_for(int(size)) for size in sizes)
    return (
        f"TTL = lg n implies {high / low:.2f} x from {sizes[0]:g} to {sizes[1]:g} processes (TTL "
        f"{low} to {high}), and that the rate changes nothing"
    )
