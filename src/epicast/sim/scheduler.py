"""What happens next: a queue of timed calls, in order of time and, at equal times, of insertion.

A binary heap costs a few comparisons per level for every message. Nearly all entries lie well in
the future when they are made, so they are dropped unsorted into buckets of about a millisecond; a
bucket is sorted, in C, when its time has come. Only what is scheduled into the bucket being worked
off goes through a (small) heap.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

BUCKET_BITS = 20
"""A bucket spans 2**20 ns, about a millisecond."""
BUCKET_MASK = (1 << BUCKET_BITS) - 1
_LAST = 1 << 62

Action = Callable[[Any, Any], None]
Entry = tuple[int, int, Action | None, Any, Any]
"""Time since its bucket began, number, what to call and its two arguments. Counted from the bucket,
times are small integers, which sort faster."""
WorkOff = Callable[[list["Entry"], list["Entry"]], None]
"""Works off a bucket: entries sorted latest first, and a heap of those that come up meanwhile."""


class _Stop(Exception):
    """Ends the loop from inside an entry, so that the loop need not look at the clock."""


class _Buckets(dict[int, list[Entry]]):
    """Unsorted entries by bucket; a bucket comes into being, and into `order`, when first used."""

    __slots__ = ("order",)

    def __init__(self) -> None:
        super().__init__()
        self.order: list[int] = []

    def __missing__(self, bucket: int) -> list[Entry]:
        entries: list[Entry] = []
        self[bucket] = entries
        heappush(self.order, bucket)
        return entries


class Scheduler:
    """`now` is the time of the entry being worked off, in nanoseconds."""

    __slots__ = ("_opened", "_runs", "bucket", "buckets", "now", "sequence", "soon")

    def __init__(self) -> None:
        self.now = 0
        self.sequence = 0
        """Of the newest entry; breaks ties, and counts."""
        self.bucket = -1
        """Number of the bucket being worked off."""
        self.buckets = _Buckets()
        self.soon: list[Entry] = []
        self._opened: list[Entry] = []
        self._runs = 0

    def at(self, time: int, action: Action, first: Any = None, second: Any = None) -> None:
        """Call `action(first, second)` at `time` (now, if that is past)."""
        if time < self.now:
            time = self.now
        self.sequence += 1
        self.put(time, self.sequence, action, first, second)

    def put(self, time: int, sequence: int, action: Action | None, first: Any, second: Any) -> None:
        """Queue an entry under a number that the caller has taken from `sequence`."""
        bucket, entry = time >> BUCKET_BITS, (time & BUCKET_MASK, sequence, action, first, second)
        if bucket == self.bucket:
            heappush(self.soon, entry)
        else:
            self.buckets[bucket].append(entry)

    def run(self, until: int, work_off: WorkOff | None = None) -> None:
        """Work off everything up to and including `until`; `now` is `until` afterwards."""
        if until < self.now:
            raise ValueError(f"cannot run until {until}: it is {self.now} already")
        work_off = work_off or self._work_off
        self._runs += 1
        # An infinite tie-breaker: after everything else of that instant.
        self.put(until, _LAST, self._stop, self._runs, None)
        try:
            while True:
                work_off(self._opened, self.soon)
                self.bucket = heappop(self.buckets.order)
                self._opened = self.buckets.pop(self.bucket)
                self._opened.sort(reverse=True)
        except _Stop:
            pass
        self.now = until

    def _stop(self, run: int, _: Any) -> None:
        if run == self._runs:  # else the end of a run that an exception has ended before
            raise _Stop

    def _work_off(self, opened: list[Entry], soon: list[Entry]) -> None:
        begun = self.bucket << BUCKET_BITS
        while opened or soon:
            if not soon or (opened and opened[-1] < soon[0]):
                offset, _, action, first, second = opened.pop()
            else:
                offset, _, action, first, second = heappop(soon)
            self.now = begun + offset
            assert action is not None
            action(first, second)

    def __len__(self) -> int:
        """How many entries are waiting."""
        return len(self._opened) + len(self.soon) + sum(map(len, self.buckets.values()))
