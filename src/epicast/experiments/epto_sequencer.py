"""EpTO beside a fixed sequencer: delays, and what the busiest process has to do.

Not of the paper. Both order the same events of the same processes. `sequenced_rounds` says what the
sequencer is; its delays are a lower bound, since it is given as much bandwidth as it needs. Every
point is run on two networks: every message draws its latency, as in EpTO's evaluation, which is
hard on connections; or every two processes are always the same distance apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np

from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.ordered_rounds import TICK_NS, OrderedSystem, Setting
from epicast.experiments.process_load import ProcessLoad
from epicast.experiments.results import Results
from epicast.experiments.sequenced_rounds import SequencedSystem
from epicast.reporting import new_figure

SYSTEMS = ("epto", "sequencer")
_LATENCIES = ("message", "pair")
_POINTS: dict[Scale, list[tuple[int, float, int, int]]] = {
    Scale.SMOKE: [(12, 0.5, 6, 1), (24, 0.5, 6, 1)],
    Scale.PAPER: [
        (n, rate, 20, 3) for n, rate in ((100, 0.1), (200, 0.1), (500, 0.1), (100, 0.5), (200, 0.5))
    ],
    Scale.BEYOND: [(500, 0.5, 15, 1), (2000, 0.05, 15, 1)],
}
"""Processes, rate, rounds, repetitions."""
_PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 100)


class EptoSequencer(Experiment):
    name = "epto-sequencer"
    title = "EpTO and a fixed sequencer: delivery delay, and the load of the busiest process"
    claim_ids = ()

    def points(self, scale: Scale) -> Sequence[Parameters]:
        return [
            {
                "processes": n,
                "rate": rate,
                "latency": latency,
                "rounds": rounds,
                "repetition": number,
            }
            for n, rate, rounds, repetitions in _POINTS[scale]
            for latency in _LATENCIES
            for number in range(repetitions)
        ]

    def run(self, parameters: Parameters, seed: int) -> Sequence[Row]:
        setting = Setting(
            processes=int(parameters["processes"] or 0),
            rate=float(parameters["rate"] or 0),
            latency=str(parameters["latency"]),
            rounds=int(parameters["rounds"] or 0),
        )
        return [_epto(setting, seed), _sequencer(setting, seed)]

    def claims(self, results: Results) -> Sequence[Claim]:
        return []

    def plots(self, results: Results) -> Sequence[Plot]:
        return [
            _distribution(results),
            _by_size(results, "delay", "mean delay (ticks)", "Delivery delay by system size."),
            _by_size(
                results,
                "busiest_bytes",
                "MB per round",
                "What the process with most to do sends and receives in a round of 125 ticks.",
                scale=1e-6,
            ),
            _by_size(
                results,
                "busiest_messages",
                "messages per round",
                "The same in messages, of any length.",
            ),
        ]


def _epto(setting: Setting, seed: int) -> Row:
    system = OrderedSystem(setting, seed, watched=False)
    load = ProcessLoad(system.simulation)
    system.run()
    missing, violations = sum(system.holes().values()), system.violations()
    return {"system": "epto", **_metrics(system, load, missing, violations)}


def _sequencer(setting: Setting, seed: int) -> Row:
    system = SequencedSystem(setting, seed)
    load = ProcessLoad(system.simulation)
    system.run()
    found = _metrics(system, load, system.missing, system.violations)
    return {"system": "sequencer", **found}


def _metrics(
    system: OrderedSystem | SequencedSystem, load: ProcessLoad, missing: int, violations: int
) -> dict[str, float | int]:
    events, times = system.deliveries()
    delays = (times - system.published_at[events]) / TICK_NS
    percentiles = np.percentile(delays, _PERCENTILES)
    return {
        "events": system.events,
        "missing": missing,
        "violations": violations,
        "delay": float(delays.mean()),
        **{
            f"delay_p{rank}": float(value)
            for rank, value in zip(_PERCENTILES, percentiles, strict=True)
        },
        **load.metrics(system.setting.rounds),
    }


def _distribution(results: Results) -> Plot:
    """Of the largest system that publishes most."""
    largest = max(results.numbers("processes"))
    rows = [row for row in results if row["processes"] == largest]
    rate = max(float(row["rate"] or 0) for row in rows)
    figure, axes = new_figure("delay (ticks)", "deliveries up to then (%)")
    for system in SYSTEMS:
        for latency in _LATENCIES:
            found = Results(results.scale, rows).where(system=system, latency=latency, rate=rate)
            delays = [mean(found.numbers(f"delay_p{rank}")) for rank in _PERCENTILES]
            axes.plot(delays, _PERCENTILES, ".-", label=f"{system}, latency by {latency}")
    axes.set_xlim(left=0)
    axes.legend(fontsize="x-small")
    caption = f"Delivery delay with {largest:g} processes at rate {rate:g}."
    return Plot("distribution", caption, figure)


def _by_size(results: Results, column: str, label: str, caption: str, scale: float = 1.0) -> Plot:
    """Only delays depend on the kind of latency."""
    figure, axes = new_figure("processes", label)
    for rate in results.distinct("rate"):
        for system in SYSTEMS:
            rows = results.where(rate=rate, system=system)
            name = f"{system}, rate {rate}"
            if column == "delay":
                for latency in _LATENCIES:
                    _draw(axes, rows.where(latency=latency), column, f"{name}, {latency}", scale)
            else:
                _draw(axes, rows, column, name, scale)
    axes.set_yscale("log")
    axes.legend(fontsize="x-small")
    return Plot(column, caption, figure)


def _draw(axes: Any, rows: Results, column: str, name: str, scale: float) -> None:
    sizes = sorted({int(n) for n in rows.numbers("processes")})
    values = [scale * mean(rows.where(processes=n).numbers(column)) for n in sizes]
    axes.plot(sizes, values, ".-", label=name)
