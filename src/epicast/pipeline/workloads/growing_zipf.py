"""Zipf ranks over a set that grows while they are drawn, in constant memory.

Ranks up to a bound come from an alias table. Behind it a rank k is drawn as a real number from the
density x ** -skew between half a rank below the first and half a rank above the last, and rounded.
Since that curve is convex, the area over a rank is never less than the rank's own weight: who is
drawn is kept with the ratio of the two, and everything is drawn again otherwise. So the
distribution is that of a table of the full size, for every size.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from epicast.experiments.zipf import BoundedZipf

Ranks = NDArray[np.int64]
Reals = NDArray[np.float64]

_TABLE = 1 << 20
"""Sixteen megabytes, most of which stays in the cache of a processor."""
_FAR = 10_000
"""Behind this rank the area of a rank is its weight times a series of one term, to 16 digits; the
difference of two powers would have only 10."""


class GrowingZipf:
    def __init__(self, ranks: int, skew: float, table: int = _TABLE) -> None:
        """`ranks` is the smallest size that will be asked for."""
        self._skew = skew
        self._head = BoundedZipf(min(ranks, table), skew)
        self._weight = float((np.arange(1, self._head.ranks + 1, dtype=np.float64) ** -skew).sum())
        self._from = self._head.ranks + 0.5

    def draw(self, rng: Generator, bounds: Ranks) -> Ranks:
        """One rank per bound, from 1 to that bound."""
        if (bounds == self._head.ranks).all():
            return self._head.draw(rng, len(bounds))
        ranks = np.zeros(len(bounds), dtype=np.int64)
        wanted = np.arange(len(bounds))
        while len(wanted):
            drawn = self._draw_once(rng, bounds[wanted])
            ranks[wanted] = drawn
            wanted = wanted[drawn == 0]
        return ranks

    def _draw_once(self, rng: Generator, bounds: Ranks) -> Ranks:
        """0 where it has to be drawn again."""
        areas = self._area(np.full(1, self._from), bounds.astype(np.float64) + 0.5)
        places = rng.random(len(bounds)) * (self._weight + areas)
        ranks = self._head.draw(rng, len(bounds))
        far = np.flatnonzero(places >= self._weight)
        drawn = self._at_area(places[far] - self._weight)
        found = np.clip(np.rint(drawn), self._head.ranks + 1, bounds[far])
        kept = rng.random(len(far)) < self._kept(found)
        ranks[far] = np.where(kept, found, 0).astype(np.int64)
        return ranks

    def _area(self, low: Reals, high: Reals) -> Reals:
        """Under x ** -skew between two places; written so that skews near 1 lose nothing."""
        power = 1 - self._skew
        if not power:
            area: Reals = np.log(high / low)
            return area
        area = low**power * np.expm1(power * np.log(high / low)) / power
        return area

    def _at_area(self, area: Reals) -> Reals:
        """Where the area from the table's end on is so large."""
        power = 1 - self._skew
        if not power:
            place: Reals = self._from * np.exp(area)
            return place
        place = self._from * np.exp(np.log1p(power * area / self._from**power) / power)
        return place

    def _kept(self, ranks: Reals) -> Reals:
        """Weight over area, for each rank."""
        series = 1 + self._skew * (self._skew + 1) / (24 * ranks * ranks)
        near = np.minimum(ranks, _FAR)
        exact = self._area(near - 0.5, near + 0.5) * near**self._skew
        kept: Reals = 1 / np.where(ranks > _FAR, series, exact)
        return kept
