"""The next event with the same key, for every event of a stream that keeps the latest per key.

Within a stretch it is found by sorting. Across stretches it is enough to know, of every key, the
first and the last event in each stretch: those of one part of all keys are brought together,
whatever the size of the stream. Keys are told apart by a hash of 64 bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast.evidence import key_hashes
from epicast.pipeline.audit.owners import Stretch

EVENTS_PER_PART = 1 << 22


class KeyEnds(NamedTuple):
    """One entry per key in a stretch."""

    hashes: NDArray[np.uint64]
    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]
    times: NDArray[np.int64]
    """Of the first."""


class Links(NamedTuple):
    seqs: NDArray[np.int64]
    nexts: NDArray[np.int64]
    times: NDArray[np.int64]
    """Of the next."""


def link_stretch(stretch: Stretch, keyless: NDArray[np.int64]) -> tuple[KeyEnds, Links]:
    """`keyless` are numbers of events that collect nothing by their key: GC events."""
    hashes = key_hashes(stretch.keys.tobytes(), stretch.key_bytes, len(stretch.contents))
    seqs = np.arange(stretch.first, stretch.first + len(hashes))
    times = stretch.times
    with_key = stretch.key_bytes > 0
    if len(keyless):
        with_key &= ~np.isin(seqs, keyless)
    if not with_key.all():
        hashes, seqs, times = hashes[with_key], seqs[with_key], times[with_key]
    order = sorted_by_hash(hashes)
    hashes = hashes[order]
    same = hashes[1:] == hashes[:-1]
    begins = np.concatenate([[True], ~same])[: len(hashes)]
    ends = np.concatenate([~same, [True]])[: len(hashes)]
    first, last = order[begins], order[ends]
    before, after = order[:-1][same], order[1:][same]
    return (
        KeyEnds(hashes[begins], seqs[first], seqs[last], times[first]),
        Links(seqs[before], seqs[after], times[after]),
    )


def link_across(ends: KeyEnds) -> Links:
    """From the last event of a key in a stretch to the first in the next one that has the key."""
    order = np.lexsort((ends.times, ends.firsts, ends.hashes))
    hashes, firsts, lasts = ends.hashes[order], ends.firsts[order], ends.lasts[order]
    same = hashes[1:] == hashes[:-1]
    if (same & (firsts[1:] <= lasts[:-1])).any():
        # Several logs tell of the same numbers, in stretches that overlap: what counts is how far
        # all stretches before have come.
        lasts = _highest_so_far(lasts, ~same)
    after = np.flatnonzero(same & (firsts[1:] > lasts[:-1])) + 1
    return Links(lasts[after - 1], firsts[after], ends.times[order][after])


def _highest_so_far(values: NDArray[np.int64], breaks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Of each value and those before it, back to the last break."""
    ordered = np.argsort(values, kind="stable")
    rank = np.empty(len(values), dtype=np.int64)
    rank[ordered] = np.arange(len(values))
    # Whatever is behind a break is above all before it.
    above = np.concatenate([[0], np.cumsum(breaks)]) * len(values)
    highest = np.maximum.accumulate(rank + above) - above
    found: NDArray[np.int64] = values[ordered][highest]
    return found


def sorted_by_hash(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Like a stable argsort, several times as fast: hash and position are sorted as one number."""
    bits = max(1, len(hashes).bit_length())
    low = np.uint64((1 << bits) - 1)
    joined = (hashes & ~low) | np.arange(len(hashes), dtype=np.uint64)
    joined.sort()
    order = (joined & low).astype(np.int64)
    found = hashes[order]
    # Hashes that differ only in the bits that gave way to the position may be mixed up.
    alike = (joined[1:] ^ joined[:-1]) <= low
    if (found[1:][alike] != found[:-1][alike]).any():
        return np.argsort(hashes, kind="stable")
    return order
