"""Claims E1, E2 and E3: order with EpTO, without it, and what it costs.

Figures 5.8 and 5.9: 100, 200 and 500 processes, publication rates 0.01, 0.1 and 0.5, both clocks.
Beyond: 5,000 processes at rate 0.05.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import numpy as np

from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.ordered_rounds import OrderedSystem, setting_of
from epicast.experiments.results import Results
from epicast.reporting import new_figure

_CLOCKS = ("global", "logical")
_POINTS: dict[Scale, list[tuple[int, float, int, int]]] = {
    Scale.SMOKE: [(20, 0.1, 12, 1), (60, 0.1, 12, 1), (20, 0.5, 12, 1), (60, 0.5, 12, 1)],
    Scale.PAPER: [(n, rate, 40, 20) for n in (100, 200, 500) for rate in (0.01, 0.1, 0.5)],
    Scale.BEYOND: [(5000, 0.05, 15, 1)],
}
"""Processes, rate, rounds, repetitions."""
_WATCHED = 40
"""Processes whose spontaneous order is computed."""


class EptoOrder(Experiment):
    name = "epto-order"
    title = "EpTO: order with and without it, and the delay it costs"
    claim_ids = ("E1", "E2", "E3")

    def points(self, scale: Scale) -> Sequence[Parameters]:
        return [
            {"processes": n, "rate": rate, "clock": clock, "rounds": rounds, "repetition": number}
            for n, rate, rounds, repetitions in _POINTS[scale]
            for clock in _CLOCKS
            for number in range(repetitions)
        ]

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
            "delay_p95": float(np.percentile(ordered, 95)),
            "unordered_delay": float(unordered.mean()),
            "unordered_delay_p95": float(np.percentile(unordered, 95)),
        }

    def claims(self, results: Results) -> Sequence[Claim]:
        return [_spontaneous(results), _total_order(results), _cost(results)]

    def plots(self, results: Results) -> Sequence[Plot]:
        figure, axes = new_figure("processes", "mean delay (ticks)")
        for rate in results.distinct("rate"):
            for clock in _CLOCKS:
                found = results.where(rate=rate, clock=clock)
                sizes = sorted({int(n) for n in found.numbers("processes")})
                delays = [mean(found.where(processes=n).numbers("delay")) for n in sizes]
                axes.plot(sizes, delays, ".-", label=f"{clock}, rate {rate}")
        axes.legend()
        return [Plot("delay", "Delivery delay (Figure 5.9).", figure)]


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
    holes, violations = (int(sum(results.numbers(name))) for name in ("holes", "violations"))
    owed = sum(
        a * b for a, b in zip(results.numbers("events"), results.numbers("processes"), strict=True)
    )
    return Claim(
        id="E2",
        paper="all processes deliver all events in one order, global and logical clock",
        ours=f"{holes} holes and {violations} violations in {owed:,.0f} deliveries owed, "
        f"{len(results)} runs",
        holds=holes == 0 and violations == 0,
        detail="holes by clock: "
        + ", ".join(
            f"{clock} {int(sum(results.where(clock=clock).numbers('holes')))}" for clock in _CLOCKS
        ),
    )


def _cost(results: Results) -> Claim:
    factors, late = {}, {}
    for clock in _CLOCKS:
        rows = results.where(clock=clock)
        factors[clock] = _ratios(rows, "delay", "unordered_delay")
        late[clock] = mean(_ratios(rows, "delay_p95", "unordered_delay_p95"))
    low, high = min(factors["global"]), max(factors["logical"])
    sizes = sorted(set(results.numbers("processes")))
    rates = sorted(set(results.numbers("rate")))
    by_size = _growth(results, "processes", sizes[0], sizes[-1])
    by_rate = _growth(results, "rate", rates[0], rates[-1])
    return Claim(
        id="E3",
        paper="ordering costs 2-4 x the delay of unordered gossip; 5 x processes or events about "
        "double it",
        ours=f"{mean(factors['global']):.2f} x with a global clock, "
        f"{mean(factors['logical']):.2f} x with a logical one ({low:.2f} to {high:.2f}); "
        f"at the 95th percentile {late['global']:.2f} x and {late['logical']:.2f} x; "
        f"{by_size:.2f} x from {sizes[0]:g} to {sizes[-1]:g} processes, "
        f"{by_rate:.2f} x from rate {rates[0]:g} to {rates[-1]:g}",
        holds=low >= 1.5 and high < 4.5 and by_size < 2.5 and by_rate < 2.5,
        detail="holds if all costs of the mean delay round to 2, 3 or 4, and growth to 2 at most",
    )


def _ratios(rows: Results, above: str, below: str) -> list[float]:
    return [a / b for a, b in zip(rows.numbers(above), rows.numbers(below), strict=True)]


def _growth(results: Results, column: str, low: float, high: float) -> float:
    """How the mean delay grows from one value of a parameter to another."""
    means = {}
    for value in (low, high):
        rows = [row for row in results if float(row[column] or 0) == value]
        means[value] = mean(float(row["delay"] or 0) for row in rows)
    return means[high] / means[low]
