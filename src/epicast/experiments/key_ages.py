"""Claim S7: how many invalidations hit keys of which age.

Figure 9 of Sprinkler: new keys attract most of them, and as newer ones come in they sink into
obscurity. In the workload of `key_workload`, with infinitely many keys, the age of a key is the
time since it was inserted; keys that were there from the beginning have none and are not counted.

The paper shows counts per tick of age over a run whose length is lost. Here the ages are binned,
ten bins per factor of ten, and divided by the width of the bin. A key can only be x ticks old after
x ticks, so the counts must fall for ages near the length of the run, whatever the workload: the
slope is fitted from one tick to a tenth of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from epicast.experiments.key_workload import INSERTIONS_PER_TICK, KeyWorkload
from epicast.experiments.model import Claim, Experiment, Parameters, Plot, Row, Scale
from epicast.experiments.results import Results
from epicast.reporting import new_figure

_TICKS = {Scale.SMOKE: 1_000, Scale.PAPER: 20_000, Scale.BEYOND: 200_000}
_SKEWS = {
    Scale.SMOKE: (1.1, 1.5),
    Scale.PAPER: (1.1, 1.2, 1.3, 1.5, 2.0),
    Scale.BEYOND: (1.1, 1.5),
}
_RATES = {Scale.SMOKE: (50, 200), Scale.PAPER: (50, 100, 200), Scale.BEYOND: (50, 200)}
_CHUNK = 1 << 16
_BINS_PER_DECADE = 10


class KeyAges(Experiment):
    name = "key-ages"
    title = "Invalidations by the age of their key, by skew and rate"
    claim_ids = ("S7",)

    def points(self, scale: Scale) -> Sequence[Parameters]:
        return [
            {"skew": skew, "rate": rate, "ticks": _TICKS[scale]}
            for skew in _SKEWS[scale]
            for rate in _RATES[scale]
        ]

    def run(self, parameters: Parameters, seed: int) -> Sequence[Row]:
        ticks, rate = int(parameters["ticks"] or 0), float(parameters["rate"] or 0)
        expected = ticks * (INSERTIONS_PER_TICK + rate)
        workload = KeyWorkload(
            keys=None,
            skew=float(parameters["skew"] or 0),
            insertions=INSERTIONS_PER_TICK,
            invalidations=rate,
            events=int(2 * expected) + _CHUNK,
            seed=seed,
        )
        edges = _edges(ticks)
        counts = np.zeros(len(edges) - 1, dtype=np.int64)
        births = np.zeros(0)
        now = 0.0
        while now < ticks:
            arrivals = workload.draw(_CHUNK)
            now = float(arrivals.times[-1])
            births = np.concatenate([births, arrivals.times[arrivals.insertions]])
            aged = (arrivals.keys < 0) & ~arrivals.insertions & (arrivals.times < ticks)
            ages = arrivals.times[aged] - births[-arrivals.keys[aged] - 1]
            counts += np.histogram(ages, edges)[0]
        widths = np.diff(edges)
        return [
            {
                "age": float(np.sqrt(low * high)),
                "age_to": float(high),
                "invalidations": int(count),
                "per_tick": float(count / width),
            }
            for low, high, count, width in zip(edges[:-1], edges[1:], counts, widths, strict=True)
        ]

    def claims(self, results: Results) -> Sequence[Claim]:
        skews = sorted(set(results.numbers("skew")))
        rates = sorted(set(results.numbers("rate")))
        fits = {
            (skew, rate): _fit(results.where(skew=skew, rate=rate))
            for skew in skews
            for rate in rates
        }
        straight = all(share >= 0.9 for _, share in fits.values())
        falling = all(slope < 0 for slope, _ in fits.values())
        steeper = all(
            fits[more, rate][0] < fits[less, rate][0]
            for rate in rates
            for less, more in pairwise(skews)
        )
        higher = all(
            _higher(results.where(skew=skew, rate=more), results.where(skew=skew, rate=less))
            for skew in skews
            for less, more in pairwise(rates)
        )
        slopes = ", ".join(f"{fits[skew, rates[-1]][0]:.2f} at skew {skew}" for skew in skews)
        verdicts = {
            "falls along a power of the age (at least 90 % of the variance)": straight and falling,
            "steeper with skew": steeper,
            "higher with λ": higher,
        }
        return [
            Claim(
                id="S7",
                paper="invalidations fall roughly Zipf-like with the age of the key; steeper with "
                "skew; higher with λ",
                ours=f"slopes on log-log {slopes}, at λ = {rates[-1]:.0f}; variance explained at "
                f"least {min(share for _, share in fits.values()):.1%}; "
                + ("higher with λ at every age" if higher else "not always higher with λ"),
                holds=all(verdicts.values()),
                detail="; ".join(f"{name}: {'yes' if yes else 'no'}" for name, yes in
                                 verdicts.items())
                + "; fitted from one tick to a tenth of the run",
            )
        ]  # fmt: skip

    def plots(self, results: Results) -> Sequence[Plot]:
        figure, axes = new_figure(
            "ticks since the key was inserted", "invalidations per tick of age"
        )
        rates = sorted(set(results.numbers("rate")))
        for color, skew in enumerate(results.distinct("skew")):
            for rate, style in zip((rates[0], rates[-1]), (":", "-"), strict=True):
                curve = results.where(skew=skew, rate=rate)
                axes.plot(curve.numbers("age"), curve.numbers("per_tick"), style,
                          color=f"C{color}", label=f"skew {skew}, λ {rate:.0f}")  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.legend(fontsize=7)
        return [Plot("key_ages", "Invalidations by age of the key (Figure 9).", figure)]


def _edges(ticks: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    bins = round(_BINS_PER_DECADE * np.log10(ticks))
    return np.logspace(0, np.log10(ticks), bins + 1)


def _comparable(results: Results) -> list[Row]:
    """The bins that lie within a tenth of the run."""
    return [row for row in results if 10 * float(row["age_to"] or 0) <= float(row["ticks"] or 0)]


def _fit(results: Results) -> tuple[float, float]:
    """Slope on log-log, and the share of the variance that the straight line explains."""
    rows = [row for row in _comparable(results) if row["invalidations"]]
    ages = np.log([float(row["age"] or 0) for row in rows])
    counts = np.log([float(row["per_tick"] or 0) for row in rows])
    slope, offset = np.polyfit(ages, counts, 1)
    left = np.var(counts - slope * ages - offset)
    return float(slope), float(1 - left / np.var(counts))


def _higher(upper: Results, lower: Results) -> bool:
    pairs = zip(_comparable(upper), _comparable(lower), strict=True)
    return all(float(a["per_tick"] or 0) > float(b["per_tick"] or 0) for a, b in pairs)
