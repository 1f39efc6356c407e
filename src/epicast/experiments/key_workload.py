"""The workload of Sprinkler's section 5.4: keys are invalidated, and new keys come in.

Keys are ordered by popularity. An invalidation names the key at a rank drawn from a Zipf
distribution over all keys there are, or from a Zeta distribution if there are infinitely many. An
insertion puts a new key at a rank drawn from the same distribution, and all keys from there on
become less popular by one rank. Both are Poisson processes in ticks.

What the paper leaves open, and what is done here:

* "Inter-arrival times are Poisson distributed" with a parameter λ, larger λ giving more events: λ
  is taken as the rate, events per tick, of a Poisson process. Insertions have λ = 10.
* Whether an insertion is itself an event of the stream. "There are two kinds of updates", so it is;
  `GcSaving` also looks at the other reading.
* What there is in the beginning. The Zeta model starts with infinitely many keys, the Zipf model
  with its finite set, both in order of popularity.
* Where a new key of the Zipf model goes: a Zipf rank among the keys there are, with itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch
from epicast.core.errors import ConfigError
from epicast.experiments.zipf import BoundedZipf, Ranks, draw_zeta

KEY_BYTES = 8
INSERTIONS_PER_TICK = 10.0


class Arrivals(NamedTuple):
    """Some consecutive events. Keys that were inserted are negative, see `RankedKeys`."""

    times: NDArray[np.float64]
    """In ticks."""
    keys: NDArray[np.int64]
    insertions: NDArray[np.bool_]


class KeyWorkload:
    """`keys` is how many there are at first, infinitely many if None; `events` is a bound."""

    def __init__(
        self,
        *,
        keys: int | None,
        skew: float,
        insertions: float,
        invalidations: float,
        events: int,
        seed: int,
    ) -> None:
        """`insertions` and `invalidations` are rates per tick."""
        if insertions < 0 or invalidations <= 0:
            raise ConfigError(
                f"insertions {insertions} and invalidations {invalidations} are no rates: "
                "the first is at least 0, the second above"
            )
        from epicast.experiments.ranked_keys import RankedKeys  # needs numba, which is heavy

        self._rng = np.random.default_rng(seed)
        self._skew = skew
        self._rate = insertions + invalidations
        self._share = insertions / self._rate
        self._now = 0.0
        self._left = events
        self._size = keys
        self._ranked = RankedKeys()
        self._table: BoundedZipf | None = None
        if keys is not None:
            # Room for what a Poisson process hardly ever exceeds: a thousand deviations.
            most = int(events * self._share + 1000 * (events * self._share) ** 0.5)
            self._table = BoundedZipf(keys + min(most, events), skew)

    def draw(self, count: int) -> Arrivals:
        """The next `count` events."""
        if count > self._left:
            raise ConfigError(f"{count} more events of a workload that has only {self._left} left")
        self._left -= count
        rng = self._rng
        times = self._now + np.cumsum(rng.exponential(1 / self._rate, count))
        self._now = float(times[-1])
        insertions = rng.random(count) < self._share
        ranks = self._draw_ranks(insertions)
        keys = self._ranked.apply(ranks, insertions) if self._share else ranks
        return Arrivals(times, keys, insertions)

    def _draw_ranks(self, insertions: NDArray[np.bool_]) -> Ranks:
        if self._table is None or self._size is None:
            return draw_zeta(self._rng, self._skew, len(insertions))
        if not self._share:
            return self._table.draw(self._rng, len(insertions))
        sizes = self._size + np.cumsum(insertions)  # the place of a new key counts
        self._size = int(sizes[-1])
        return self._table.draw_up_to(self._rng, sizes)


def encode_events(stream: int, first: int, keys: NDArray[np.int64]) -> EventBatch:
    """A batch of events that are a key and nothing else, without a loop over them."""
    data = keys.astype("<i8", copy=False).tobytes()
    return EventBatch.even(stream, first, data, KEY_BYTES, 0)
