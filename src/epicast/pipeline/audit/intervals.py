"""Ranges of numbers as two columns, first and last, both of them included."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class Ranges(NamedTuple):
    first: Numbers
    last: Numbers


def lengths(ranges: Ranges) -> Numbers:
    return ranges.last - ranges.first + 1


def size(ranges: Ranges) -> int:
    return int(lengths(ranges).sum())


def union(ranges: Ranges) -> Ranges:
    """What they cover together, in order, without overlap; neighbours may stay apart."""
    first, last = ranges
    if len(first) < 2 or bool((first[1:] > last[:-1]).all()):
        return ranges
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    begins = np.concatenate([[True], first[1:] > last[:-1]])
    ends = np.concatenate([begins[1:], [True]])
    return Ranges(first[begins], last[ends])


def numbers_in(ranges: Ranges) -> tuple[Numbers, Numbers]:
    """Every number in them, range by range, and the index of its range."""
    count = lengths(ranges)
    index = np.repeat(np.arange(len(count)), count)
    begins = np.cumsum(count) - count
    return np.arange(len(index)) - np.repeat(begins - ranges.first, count), index


def contains(disjoint: Ranges, numbers: Numbers) -> NDArray[np.bool_]:
    """Which numbers are in some ranges that `union` has made."""
    at = np.searchsorted(disjoint.first, numbers, side="right") - 1
    inside: NDArray[np.bool_] = at >= 0
    if len(disjoint.first):
        inside &= numbers <= disjoint.last[at]
    return inside


def split(ranges: Ranges, bits: int) -> tuple[Ranges, Numbers]:
    """Cut at the ends of blocks of 2**bits numbers, and the index of where each part is from."""
    low, high = (ranges.first - 1) >> bits, (ranges.last - 1) >> bits
    count = high - low + 1
    if bool((count == 1).all()):
        return ranges, np.arange(len(count))
    index = np.repeat(np.arange(len(count)), count)
    begins = np.cumsum(count) - count
    block = np.arange(len(index)) - np.repeat(begins - low, count)
    first = np.maximum(ranges.first[index], (block << bits) + 1)
    last = np.minimum(ranges.last[index], (block + 1) << bits)
    return Ranges(first, last), index


def as_pairs(ranges: Ranges) -> list[tuple[int, int]]:
    """What they cover together, in order; neighbours are put together."""
    together = union(Ranges(ranges.first, ranges.last + 1))
    return list(zip(together.first.tolist(), (together.last - 1).tolist(), strict=True))


def as_ranges(pairs: list[tuple[int, int]]) -> Ranges:
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Ranges(table[:, 0], table[:, 1])
