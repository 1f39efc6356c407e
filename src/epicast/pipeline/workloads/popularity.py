"""Which key is at which rank after many insertions, for lookups by the million.

A run of insertions maps ranks after it to keys it has put in, or to ranks before it. Two runs, one
after the other, are a run again. Runs are kept like the digits of a binary number: two that cover
as many chunks become one. So every insertion is merged a few times only, and a rank is looked up in
a few sorted columns, the latest first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]


class Run(NamedTuple):
    chunks: int
    ranks: Column
    """After the run, of the keys it has put in, ascending."""
    keys: Column


class Popularity:
    def __init__(self) -> None:
        self.inserted = 0
        self._runs: list[Run] = []

    def add(self, ranks: Column, keys: Column) -> None:
        """The insertions of the next chunk, as they stand at its end."""
        run = Run(1, ranks, keys)
        while self._runs and self._runs[-1].chunks == run.chunks:
            run = joined(self._runs.pop(), run)
        self._runs.append(run)
        self.inserted += len(keys)

    def keys_at(self, ranks: Column) -> Column:
        """Inserted keys, which are negative, or the number of the original key."""
        found = ranks.copy()
        open_rows = np.arange(len(ranks))
        left = ranks
        for run in reversed(self._runs):
            if not len(run.ranks):
                continue
            before = np.searchsorted(run.ranks, left)
            place = np.minimum(before, len(run.ranks) - 1)
            hit = run.ranks[place] == left
            found[open_rows[hit]] = run.keys[place[hit]]
            open_rows = open_rows[~hit]
            left = (left - before)[~hit]
        found[open_rows] = left
        return found


def joined(early: Run, late: Run) -> Run:
    """The late run moves keys of the early one down; its own stay where they are."""
    gaps = late.ranks - np.arange(1, len(late.ranks) + 1)  # ranks of others before each of them
    moved = early.ranks + np.searchsorted(gaps, early.ranks)
    ranks = np.concatenate([moved, late.ranks])
    order = np.argsort(ranks, kind="stable")  # two ascending runs: linear
    keys = np.concatenate([early.keys, late.keys])
    return Run(early.chunks + late.chunks, ranks[order], keys[order])
