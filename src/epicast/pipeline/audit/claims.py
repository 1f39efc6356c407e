"""What several logs of one owner say of the same numbers, put together.

The replicas of a chain log the same events, and so do processes that were started again. What is in
any of their logs is known. If they agree on a number, it was stored when the first of them says so:
the others heard of it later. If they do not, the content that most logs have stands, so that
subscribers and publishers are judged by that, and the number is disputed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Contents = NDArray[np.uint64]


class Dispute(NamedTuple):
    who: int
    """The first log that has something else than most."""
    at: Numbers


class Claims:
    """Numbers from 0 to `size`, without it. First all `take`, then one `settle`."""

    def __init__(self, size: int) -> None:
        self.known = np.zeros(size, dtype=np.bool_)
        self.contents = np.zeros(size, dtype=np.uint64)
        self.times = np.zeros(size, dtype=np.int64)
        self._disputed = np.zeros(size, dtype=np.bool_)
        self._taken: list[tuple[int, Numbers | slice, Contents]] = []

    def take(self, who: int, at: Numbers | slice, contents: Contents, times: Numbers) -> None:
        """A log says that these, each of them once, were stored at these times."""
        known, before = self.known[at], self.contents[at]
        self._disputed[at] |= known & (before != contents)
        self.contents[at] = np.where(known, before, contents)
        self.times[at] = np.where(known, np.minimum(self.times[at], times), times)
        self.known[at] = True
        self._taken.append((who, at, contents))

    def settle(self) -> list[Dispute]:
        """Each number that is disputed is in one of them."""
        taken, self._taken = self._taken, []
        disputed = np.flatnonzero(self._disputed)
        if not len(disputed):
            return []
        logs = sorted({who for who, _, _ in taken})
        said = np.zeros((len(logs), len(disputed)), dtype=np.bool_)
        table = np.zeros((len(logs), len(disputed)), dtype=np.uint64)
        for who, at, contents in taken:
            row = logs.index(who)
            where = np.arange(at.start, at.stop) if isinstance(at, slice) else at
            here = np.flatnonzero(self._disputed[where])
            column = np.searchsorted(disputed, where[here])
            first = ~said[row, column]
            table[row, column[first]] = contents[here[first]]
            said[row, column] = True
        votes = [(said & (table == each)).sum(axis=0) * mine
                 for each, mine in zip(table, said, strict=True)]  # fmt: skip
        self.contents[disputed] = table[np.argmax(votes, axis=0), np.arange(len(disputed))]
        return list(self._blamed(logs, disputed, said & (table != self.contents[disputed])))

    @staticmethod
    def _blamed(
        logs: list[int], disputed: Numbers, against: NDArray[np.bool_]
    ) -> Iterator[Dispute]:
        # A log that contradicts nobody but itself is blamed for that.
        blamed = np.where(against.any(axis=0), np.argmax(against, axis=0), len(logs) - 1)
        for row, who in enumerate(logs):
            if len(at := disputed[blamed == row]):
                yield Dispute(who, at)
