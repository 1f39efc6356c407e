"""Heavy-tailed ranks, drawn many at a time: Zipf over a finite set, Zeta over an infinite one.

Rank 1 is the most popular; rank r has a probability proportional to r ** -skew.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from epicast.core.errors import ConfigError

Ranks = NDArray[np.int64]

_MAX_RANKS = 1 << 27
"""Sixteen bytes each: an alias table of two gigabytes."""
_MOST_REDRAWS = 10_000
_MOST_RANK = 1 << 62


class BoundedZipf:
    """Ranks 1..`ranks` by an alias table: two look-ups a draw, however many ranks there are.

    The table has one column per rank. A column keeps a share of its probability for its own rank
    and gives the rest to one other, its alias; every column as a whole is equally likely. Ranks
    above the average fill up the columns of those below it, both in order, so that who fills whom
    follows from two running sums and needs no loop.
    """

    def __init__(self, ranks: int, skew: float) -> None:
        if not 1 <= ranks <= _MAX_RANKS:
            raise ConfigError(f"ranks: {ranks} is not between 1 and {_MAX_RANKS}")
        if not 0 <= skew < 100:
            raise ConfigError(f"skew: {skew} is not between 0 and 100")
        self.ranks = ranks
        self.skew = skew
        weights = np.arange(1, ranks + 1, dtype=np.float64) ** -skew
        heights = weights * (ranks / weights.sum())
        self._own = heights
        self._alias = np.arange(ranks, dtype=np.int64)
        givers = int(np.searchsorted(-heights, -1.0, side="right"))  # heights descend
        given = np.cumsum(heights[:givers] - 1.0)
        taken = np.cumsum(1.0 - heights[givers:])
        if givers and givers < ranks:
            before = np.concatenate([np.zeros(1), taken[:-1]])
            giver = np.searchsorted(given, before, side="right")
            self._alias[givers:] = np.minimum(giver, givers - 1)
            # A giver that gave more than its surplus is itself filled up by the next one.
            overdrawn = np.searchsorted(taken, given[:-1], side="right")
            overdrawn = np.minimum(overdrawn, len(taken) - 1)
            self._own[: givers - 1] = 1.0 + given[:-1] - taken[overdrawn]
            self._alias[: givers - 1] += 1
            self._own[givers - 1] = 1.0
        np.clip(self._own, 0.0, 1.0, out=self._own)

    def probabilities(self) -> NDArray[np.float64]:
        """Of the ranks in order, as the table has them."""
        share: NDArray[np.float64] = self._own.copy()
        np.add.at(share, self._alias, 1.0 - self._own)
        share /= self.ranks
        return share

    def draw(self, rng: Generator, count: int) -> Ranks:
        place = rng.random(count) * self.ranks
        column = place.astype(np.int64)
        return np.where(place - column < self._own[column], column, self._alias[column]) + 1

    def draw_up_to(self, rng: Generator, bounds: Ranks) -> Ranks:
        """One rank per bound, none above its bound: what a table of that size would give.

        Ranks above the bound are drawn again, so a table somewhat larger than the bounds serves a
        set that grows.
        """
        ranks = self.draw(rng, len(bounds))
        for _ in range(_MOST_REDRAWS):
            wrong = np.flatnonzero(ranks > bounds)
            if not len(wrong):
                return ranks
            ranks[wrong] = self.draw(rng, len(wrong))
        raise ConfigError(
            f"a table of {self.ranks} ranks is too large for sets of {int(bounds.min())}"
        )


def draw_zeta(rng: Generator, skew: float, count: int) -> Ranks:
    """Ranks 1, 2, … without end, but for those above 2^62, which are drawn again.

    The tail is that heavy: at skew 1.1 more than one in a hundred would lie there.
    """
    if not skew > 1:
        raise ConfigError(
            f"skew: {skew} is not above 1: over an infinite set it adds up to nothing"
        )
    ranks = rng.zipf(skew, count).astype(np.int64, copy=False)
    while len(wrong := np.flatnonzero(ranks > _MOST_RANK)):
        ranks[wrong] = rng.zipf(skew, len(wrong))
    return ranks
