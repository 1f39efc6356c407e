"""Sets of numbers as sorted, disjoint intervals, a column of starts and one of ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Intervals = tuple[Numbers, Numbers]
"""First and last number of each."""


def union(firsts: Numbers, lasts: Numbers) -> Intervals:
    """Of any intervals."""
    if not len(firsts):
        return firsts, lasts
    order = np.argsort(firsts, kind="stable")
    firsts, reach = firsts[order], np.maximum.accumulate(lasts[order])
    starts = np.append(True, firsts[1:] > reach[:-1] + 1)
    ends = np.append(np.flatnonzero(starts)[1:] - 1, len(firsts) - 1)
    return firsts[starts], reach[ends]


def size(intervals: Intervals) -> int:
    firsts, lasts = intervals
    return int((lasts - firsts + 1).sum())


def overlap(one: Intervals, other: Intervals) -> int:
    """How many numbers two disjoint sets have in common."""
    return size(one) + size(other) - size(union(*map(np.concatenate, zip(one, other, strict=True))))
