"""One block of one stream: what everybody got of it, against what its owner logged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast.evidence import Kind
from epicast.pipeline.audit.blocks import Block
from epicast.pipeline.audit.case import TIME_SLOTS, Case
from epicast.pipeline.audit.cutting import GOT, LATE
from epicast.pipeline.audit.intervals import Ranges, contains, lengths, numbers_in, size, union
from epicast.pipeline.audit.packing import unpack
from epicast.pipeline.audit.staleness import histogram
from epicast.pipeline.audit.tallies import Tally
from epicast.pipeline.audit.tombstones import MATCHED, PENDING, UNMATCHED, Search, Tombstones
from epicast.pipeline.audit.tracking import Segment

Mask = NDArray[np.bool_]


class Got(NamedTuple):
    """Rows of a subscription in a block, in the order of its log; numbers from its start."""

    kinds: NDArray[np.uint8]
    ranges: Ranges
    times: NDArray[np.int64]
    digests: NDArray[np.uint64]
    late: Mask

    @classmethod
    def unpacked(cls, payloads: Sequence[bytes]) -> Got:
        parts = [unpack(payload, *GOT) for payload in payloads]
        kinds, first, count, times, digests = (
            np.concatenate(column) if len(column) > 1 else column[0]
            for column in zip(*parts, strict=True)
        )
        begin = first.astype(np.int64)
        ranges = Ranges(begin, begin + count - 1)
        return cls(kinds & ~np.uint8(LATE), ranges, times, digests, kinds >= LATE)

    def where(self, wanted: Mask) -> Ranges:
        return Ranges(self.ranges.first[wanted], self.ranges.last[wanted])


_NOTHING = Got(
    np.empty(0, np.uint8), Ranges(np.empty(0, np.int64), np.empty(0, np.int64)),
    np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.bool_),
)  # fmt: skip


class Judge:
    """For all subscriptions of a block, one after the other."""

    def __init__(self, block: Block, case: Case, stream: int, epoch: int) -> None:
        self._block = block
        self._case = case
        self._judged_until = case.judged_until(stream, epoch)
        self._is_of_epoch = (stream, epoch) in case.extents
        """Whether the owner has stored anything in the epoch; if not, nobody knows how much of what
        it had before is left."""
        self._search = Search(block, case, stream, epoch)

    def nothing(self, segment: Segment) -> Tally:
        """A subscription that got nothing of the block; something may have been owed to it."""
        return self.subscription(segment, _NOTHING)

    def subscription(self, segment: Segment, got: Got) -> Tally:
        tally = Tally()
        events = got.kinds == Kind.EVENTS
        good, unknown = self._compare(got, events)
        covered = union(got.ranges)
        delivered = union(got.where(good))
        counts = tally.counts
        counts.delivered = size(delivered)
        counts.duplicated = size(got.ranges) - size(covered)
        self._count_false(tally, got, events & ~good, unknown)
        self._count_owed(tally, segment, covered)
        self._count_tombstones(tally, segment, got, delivered)
        if got.late.any():
            self._count_disorder(tally, got)
        self._count_ages(tally, got, good)
        return tally

    def _compare(self, got: Got, events: Mask) -> tuple[Mask, Mask]:
        """Which rows are what the owner stored, and which have numbers it did not log."""
        block = self._block
        known = block.count_known(*got.ranges) == lengths(got.ranges)
        good = events & known
        before = block.hashed_before
        ranges = got.where(good)
        good[good] = before[ranges.last + 1] - before[ranges.first] == got.digests[good]
        return good, ~known

    def _count_false(self, tally: Tally, got: Got, false: Mask, unknown: Mask) -> None:
        if not false.any():
            return
        unsure = unknown & (got.times > self._judged_until)
        if unsure.any():
            tally.counts.unjudged += size(union(got.where(false & unsure)))
            false = false & ~unsure
        forged = union(got.where(false))
        tally.counts.forged = size(forged)
        self._note(tally, "forged", forged)

    def _count_owed(self, tally: Tally, segment: Segment, covered: Ranges) -> None:
        """What the owner has from the start of the subscription to where it came, and what was
        stored early enough before it was closed."""
        block = self._block
        start = segment.first - block.first
        reached = segment.reached - block.first
        owed = int(block.count_known(np.array([start]), np.array([reached]))[0])
        lost = owed - int(block.count_known(np.maximum(covered.first, start), covered.last).sum())
        if lost:
            self._note_holes(tally, max(start, 0), min(reached, block.size - 1), covered)
        if segment.closed is not None and self._is_of_epoch:
            missed = self._stored_by(
                segment.closed - self._case.rules.grace_ns, max(reached + 1, start)
            )
            owed += missed
            lost += missed
            if missed:
                begin = block.first + max(reached + 1, start, 0)
                tally.note("lost", begin, begin + missed - 1)
        tally.counts.owed, tally.counts.lost = owed, lost

    def _stored_by(self, time: int, begin: int) -> int:
        """How many numbers from `begin` on the owner had stored by then."""
        block = self._block
        begin = max(begin, 0)
        earliest, latest = block.bounds_of_times
        if begin >= block.size or time < earliest:
            return 0
        if time >= latest:
            return int(block.known_before[-1] - block.known_before[begin])
        return int((block.known[begin:] & (block.times[begin:] <= time)).sum())

    def _count_tombstones(
        self, tally: Tally, segment: Segment, got: Got, delivered: Ranges
    ) -> None:
        rows = np.flatnonzero(got.kinds == Kind.TOMBSTONES)
        if not len(rows):
            return
        ranges = got.where(got.kinds == Kind.TOMBSTONES)
        at, index = numbers_in(ranges)
        times = got.times[rows][index] + self._case.rules.clock_tolerance_ns
        if tally.counts.duplicated:
            at, first = np.unique(at, return_index=True)
            alone = ~contains(delivered, at)
            at, times = at[alone], times[first][alone]
        known = at < self._block.size
        known[known] = self._block.known[at[known]]
        verdicts = np.full(len(at), UNMATCHED, dtype=np.uint8)
        tombstones = Tombstones(at[known], times[known], segment.reached)
        verdicts[known] = self._search.judge(tombstones)
        counts = tally.counts
        counts.tombstoned = int((verdicts == MATCHED).sum())
        counts.pending = int((verdicts == PENDING).sum())
        wrong = verdicts == UNMATCHED
        unsure = wrong & (times - self._case.rules.clock_tolerance_ns > self._judged_until)
        counts.unjudged += int(unsure.sum())
        found = at[wrong & ~unsure]
        counts.unmatched = len(found)
        self._note(tally, "unmatched", Ranges(found, found))

    def _count_disorder(self, tally: Tally, got: Got) -> None:
        """Of the late rows, those that have something their subscription had not got before."""
        at, row = numbers_in(got.ranges)
        first_row: NDArray[np.int64] = np.full(int(at.max()) + 1, -1)
        first_row[at[::-1]] = row[::-1]
        brings_new = np.zeros(len(got.kinds), dtype=np.bool_)
        brings_new[first_row[first_row >= 0]] = True
        wrong = got.late & brings_new
        tally.counts.out_of_order = int(wrong.sum())
        self._note(tally, "out of order", got.where(wrong))

    def _count_ages(self, tally: Tally, got: Got, good: Mask) -> None:
        """A row may have events that the owner stored at several times: they are taken apart."""
        if not good.any():
            return
        block, case = self._block, self._case
        ranges, times = got.where(good), got.times[good]
        low, high = block.run_of[ranges.first], block.run_of[ranges.last]
        runs, row = numbers_in(Ranges(low.astype(np.int64), high.astype(np.int64)))
        begin = np.maximum(block.run_starts[runs], ranges.first[row])
        end = np.minimum(block.run_starts[runs + 1], ranges.last[row] + 1)
        ages = times[row] - block.times[begin]
        slots = np.clip((times - case.first_time) // case.slot_ns, 0, TIME_SLOTS - 1)
        over_time = np.bincount(slots, weights=lengths(ranges), minlength=TIME_SLOTS)
        tally.add_ages(histogram(ages, end - begin), over_time.astype(np.int64))
        tally.oldest_ns = max(0, int(ages.max()))
        early = ages < -case.rules.clock_tolerance_ns
        if early.any():
            wrong = np.unique(row[early])
            tally.counts.clock = len(wrong)
            self._note(tally, "clock", Ranges(ranges.first[wrong], ranges.last[wrong]))

    def _note(self, tally: Tally, what: str, ranges: Ranges) -> None:
        start = self._block.first
        for first, last in zip(ranges.first[:5].tolist(), ranges.last[:5].tolist(), strict=True):
            tally.note(what, start + first, start + last)

    def _note_holes(self, tally: Tally, start: int, end: int, covered: Ranges) -> None:
        firsts = np.concatenate([[start], covered.last + 1])
        lasts = np.concatenate([covered.first - 1, [end]])
        firsts, lasts = np.maximum(firsts, start), np.minimum(lasts, end)
        holes = self._block.count_known(firsts, lasts) > 0
        self._note(tally, "lost", Ranges(firsts[holes], lasts[holes]))
