"""What publishers were told is stored, against what the owner logged of them.

Both are known by the publisher's own numbers: which numbers of the stream its events got is none of
its business.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast.pipeline.audit.case import Case
from epicast.pipeline.audit.claims import Claims
from epicast.pipeline.audit.completeness import NEVER
from epicast.pipeline.audit.cutting import ACKED, PUBLISHED
from epicast.pipeline.audit.intervals import Ranges, lengths, numbers_in, size, union
from epicast.pipeline.audit.packing import unpack
from epicast.pipeline.audit.tallies import Tally


class PublishedBlock:
    """What the owner logged of a block of a publisher's numbers; all `take` comes first."""

    def __init__(self, number: int, bits: int) -> None:
        self.first = (number << bits) + 1
        self._claims = Claims(1 << bits)
        self._sums: tuple[NDArray[np.int64], NDArray[np.uint64]] | None = None

    def take(self, log: int, payload: bytes) -> None:
        first, last, times, contents = unpack(payload, *PUBLISHED)
        ranges = Ranges(first - self.first, last - self.first)
        at, index = numbers_in(ranges)
        if size(union(ranges)) == len(at):
            self._claims.take(log, at, contents, times[index])
            return
        for number in range(len(first)):  # the log has something twice
            here = index == number
            self._claims.take(log, at[here], contents[here], times[index[here]])

    def stored(self, at: NDArray[np.int64], *, late: bool) -> NDArray[np.int64]:
        """When; what is not known may have been as late, or as early, as one likes."""
        claims = self._claims
        return np.where(claims.known[at], claims.times[at], NEVER if late else -NEVER)

    def sums(self, ranges: Ranges) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """How many numbers of each range are known, and the sum of their contents."""
        if self._sums is None:
            self._claims.settle()  # what is disputed is counted where the stream's numbers are
            known = np.concatenate([[0], np.cumsum(self._claims.known, dtype=np.int64)])
            contents = np.cumsum(self._claims.contents, dtype=np.uint64)
            self._sums = known, np.concatenate([np.zeros(1, np.uint64), contents])
        known, contents = self._sums
        begin, end = ranges.first, ranges.last + 1
        return known[end] - known[begin], contents[end] - contents[begin]


class Partial(NamedTuple):
    """Publications that cross the end of a block: their sums are put together at the end."""

    rows: NDArray[np.int64]
    whole: NDArray[np.int64]
    missing: NDArray[np.int64]
    contents: NDArray[np.uint64]
    """Of the events in the block, summed up."""
    expected: NDArray[np.uint64]
    acked: NDArray[np.int64]


PARTIAL = (np.int64, np.int64, np.int64, np.uint64, np.uint64, np.int64)


def judge_acked(
    block: PublishedBlock, case: Case, stream: int, payload: bytes
) -> tuple[Tally, Partial]:
    rows, first, last, before, whole, content, sent, acked = unpack(payload, *ACKED)
    ranges = Ranges(first - block.first, last - block.first)
    known, sums = block.sums(ranges)
    missing = lengths(ranges) - known
    inside = lengths(ranges) == whole
    unsure = acked > case.publications_judged_until(stream)
    tally = _counted(
        whole[inside], missing[inside], sums[inside] == content[inside], unsure[inside]
    )
    if tally.counts.acked_but_lost:
        at = int(np.argmax(inside & ((missing > 0) | (sums != content))))
        tally.note("acked but lost", int(first[at]), int(last[at]))
    tolerance = case.rules.clock_tolerance_ns
    wrong = (before == 0) & (sent - tolerance > block.stored(ranges.first, late=True))
    ends = before + lengths(ranges) == whole
    wrong |= ends & (acked + tolerance < block.stored(ranges.last, late=False))
    tally.counts.clock = int(wrong.sum())
    columns = (rows, whole, missing, sums, content, acked)
    return tally, Partial(*(column[~inside] for column in columns))


def judge_crossing(partials: list[Partial], judged_until: int) -> Tally:
    """All parts of all publications of one publisher that cross the ends of blocks."""
    parts = map(np.concatenate, zip(*partials, strict=True))
    rows, whole, missing, contents, expected, acked = parts
    order = np.argsort(rows, kind="stable")
    starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
    sums = np.add.reduceat(contents[order], starts)
    gone = np.add.reduceat(missing[order], starts)
    same = sums == expected[order][starts]
    return _counted(whole[order][starts], gone, same, acked[order][starts] > judged_until)


def _counted(
    whole: NDArray[np.int64], missing: NDArray[np.int64], same: NDArray[np.bool_],
    unsure: NDArray[np.bool_],
) -> Tally:  # fmt: skip
    """Numbers the owner does not have are lost, unless there is no telling whether it does; all of
    a publication if it has something else."""
    tally = Tally()
    lost = np.where(missing > 0, missing, np.where(same, 0, whole))
    tally.counts.acked = int(whole.sum())
    unsure = unsure & (missing > 0)
    tally.counts.unjudged = int(lost[unsure].sum())
    tally.counts.acked_but_lost = int(lost[~unsure].sum())
    return tally
