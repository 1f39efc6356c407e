"""Early delivery of ordered events: what it gains, what is revised, whether its odds are honest.

Not of the paper. Some processes of a run have a reader for each probability and tell once per round
what is pending. Measured are events published in the second half: in the first, odds are learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epicast.core import NodeId
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.ordered_rounds import TICK_NS, OrderedSystem, Setting, setting_of
from epicast.experiments.results import Results
from epicast.protocols.epto import EarlyStep, Epto
from epicast.reporting import new_figure
from epicast.sim.node import SimNode

PROBABILITIES = (0.5, 0.9, 0.99, 0.999)
BANDS = (0.0, *PROBABILITIES, 1.0)
"""Of predictions, each from one of these to the next."""
_CLOCKS = ("global", "logical")
_READING = 40
"""Processes that have readers."""
_POINTS: dict[Scale, list[tuple[int, float, int, int]]] = {
    Scale.SMOKE: [(20, 0.5, 40, 1)],
    Scale.PAPER: [(100, 0.1, 200, 5), (100, 0.5, 80, 5), (500, 0.5, 40, 5)],
    Scale.BEYOND: [(2000, 0.1, 40, 1)],
}
"""Processes, rate, rounds, repetitions."""
_NOT_YET = np.iinfo(np.int64).max
Ints = NDArray[np.int64]


class _Given:
    """What a reader has been given."""

    def __init__(self, events: int) -> None:
        self._unconfirmed: Ints = np.zeros(0, dtype=np.int64)
        self.first: Ints = np.full(events, _NOT_YET)
        """By event: when it was given first."""
        self.final: Ints = np.full(events, _NOT_YET)
        self.revised: NDArray[np.bool_] = np.zeros(events, dtype=bool)

    def take(self, now: int, step: EarlyStep) -> None:
        stands = len(self._unconfirmed) - step.revised
        self.revised[self._unconfirmed[stands:]] = True
        given = self._unconfirmed[:stands]
        if step.batch is not None:
            new = np.frombuffer(step.batch.data, dtype="<i8")
            self.first[new] = np.minimum(self.first[new], now)
            given = np.concatenate([given, new])
        self.final[given[: step.confirmed]] = now
        self._unconfirmed = given[step.confirmed :]


class EarlySystem:
    def __init__(self, setting: Setting, seed: int) -> None:
        self.system = system = OrderedSystem(setting, seed, watched=False)
        self._reading = system.stable[:_READING]
        self._given: dict[tuple[NodeId, int], _Given] = {}
        self._samples: dict[NodeId, list[tuple[int, Ints, NDArray[np.float64]]]] = {}
        """Of each process: how many events it had delivered, and the names and odds of those
        pending."""
        simulation = system.simulation
        simulation.on_notice = self._on_notice
        period = int(setting.period_ticks * TICK_NS)
        self._begin = setting.rounds * period // 2
        for identity in self._reading:
            node = simulation.nodes[identity]
            for probability in PROBABILITIES:
                reader = _order(node).early.add(probability)
                self._given[identity, reader.number] = _Given(len(system.published_at))
            self._samples[identity] = []
            for at in range(self._begin, setting.rounds * period, period):
                simulation.scheduler.at(at, self._sample, node)

    def _on_notice(self, now: int, node: NodeId, _: int, value: Any) -> None:
        if isinstance(value, EarlyStep):
            self._given[node, value.reader].take(now, value)

    def _sample(self, node: SimNode, _: Any) -> None:
        order = _order(node)
        pending = order.pending()
        names = np.array([_name(each.source, each.first) for each in pending], dtype=np.int64)
        odds = np.array([each.stable for each in pending])
        self._samples[node.id].append((int(order.statistics()["delivered"]), names, odds))

    def deliveries(self) -> list[Row]:
        """A row for each probability."""
        system = self.system
        published = system.published_at[: system.events]
        measured = np.flatnonzero(published >= self._begin)
        rows: list[Row] = []
        for number, probability in enumerate(PROBABILITIES, 1):
            given = [self._given[identity, number] for identity in self._reading]
            first, final, revised = (
                np.concatenate([getattr(one, name)[measured] for one in given])
                for name in ("first", "final", "revised")
            )
            since = np.tile(published[measured], len(given))
            had = final != _NOT_YET
            rows.append(
                {
                    "probability": probability,
                    "early_delay": float((first - since)[had].mean() / TICK_NS),
                    "final_delay": float((final - since)[had].mean() / TICK_NS),
                    "given_early": float((first < final)[had].mean()),
                    "revised": float(revised[had].mean()),
                    "measured": int(had.sum()),
                }
            )
        return rows

    def calibration(self) -> list[Row]:
        """A row for each band of predictions: how many of those events were in their places."""
        odds, right = [], []
        for identity in self._reading:
            order = self._names()[self.system.order(identity)]
            for delivered, names, predicted in self._samples[identity]:
                odds.append(predicted)
                right.append(order[delivered : delivered + len(names)] == names)
        predicted, observed = np.concatenate(odds), np.concatenate(right)
        rows: list[Row] = []
        for low, high in pairwise(BANDS):
            inside = (predicted >= low) & (predicted < high)
            if inside.any():
                rows.append(
                    {
                        "band": low,
                        "predicted": float(predicted[inside].mean()),
                        "observed": float(observed[inside].mean()),
                        "samples": int(inside.sum()),
                    }
                )
        return rows

    def _names(self) -> Ints:
        """Of all events, as `_name` has it: a process numbers its events in the order made."""
        sources = self.system.sources[: self.system.events]
        order = np.argsort(sources, kind="stable")
        ranked = sources[order]
        numbers = np.empty(len(sources), dtype=np.int64)
        numbers[order] = np.arange(len(sources)) - np.searchsorted(ranked, ranked) + 1
        named: Ints = _name(sources, numbers)
        return named


def _name(source: Any, number: Any) -> Any:
    return source << 32 | number


def _order(node: SimNode) -> Epto:
    assert isinstance(node.protocol, Epto)
    return node.protocol


class EptoEarly(Experiment):
    name = "epto-early"
    title = "EpTO: early delivery, what it gains, what is revised, and whether its odds are honest"
    claim_ids = ()

    def points(self, scale: Scale) -> Sequence[Parameters]:
        return [
            {"processes": n, "rate": rate, "clock": clock, "rounds": rounds, "repetition": number}
            for n, rate, rounds, repetitions in _POINTS[scale]
            for clock in _CLOCKS
            for number in range(repetitions)
        ]

    def run(self, parameters: Parameters, seed: int) -> list[Row]:
        found = EarlySystem(setting_of(parameters), seed)
        found.system.run()
        return found.deliveries() + found.calibration()

    def claims(self, results: Results) -> Sequence[Claim]:
        return []

    def plots(self, results: Results) -> Sequence[Plot]:
        delay, delay_axes = new_figure("probability", "mean delay (ticks)")
        odds, odds_axes = new_figure("predicted", "in their final places")
        for n, rate in dict.fromkeys(
            zip(results.column("processes"), results.column("rate"), strict=True)
        ):
            for clock in _CLOCKS:
                rows = results.where(processes=n, rate=rate, clock=clock)
                label = f"{n}, rate {rate}, {clock}"
                delays = [
                    mean(rows.where(probability=p).numbers("early_delay")) for p in PROBABILITIES
                ]
                delay_axes.plot([str(p) for p in PROBABILITIES], delays, ".-", label=label)
                bands = sorted(set(rows.numbers("band")))
                odds_axes.plot(
                    [mean(rows.where(band=band).numbers("predicted")) for band in bands],
                    [mean(rows.where(band=band).numbers("observed")) for band in bands],
                    ".-",
                    label=label,
                )
        odds_axes.plot([0, 1], [0, 1], "k:")
        for axes in (delay_axes, odds_axes):
            axes.legend()
        return [
            Plot("delay", "When events are given first.", delay),
            Plot("odds", "Odds told by pending(), and what became of it.", odds),
        ]
