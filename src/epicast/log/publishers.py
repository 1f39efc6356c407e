"""How far each publisher got, which a new owner of the stream needs to recognise repetitions.

A stored batch names the publisher of every number. What compaction puts together from several names
only the last number of each publisher: that is all a history needs to know, however much of it was
collected, and it is no more than there are publishers. It names everybody who is heard in it, also
who was heard again behind it: that may be lost. What a replica reads to catch up names as much as
is stored: what it gets ends anywhere, and so may what it has when it becomes the head.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from epicast.core import Run
from epicast.core.batch_layout import joined_runs
from epicast.log.layout import BATCH_HEADER_BYTES, FRAME_BYTES
from epicast.log.rows import Rows

UNKNOWN_PUBLISHER = 0
"""In a run: who published these is not known any more."""


class Publishers:
    """The most recent ones, least recent first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._last: dict[int, tuple[int, int]] = {}
        """By publisher: its highest sequence number, and the stream's where that was."""
        self._order: list[tuple[int, int, int]] | None = None

    def take(self, rows: Rows) -> None:
        """Stored batches that are newer than all before."""
        if not rows.runs:
            return
        self._order = None
        for publisher, last_of_publisher, _, last in runs_in(rows):
            if publisher == UNKNOWN_PUBLISHER:
                continue
            known, _ = self._last.pop(publisher, (0, 0))
            self._last[publisher] = (max(known, last_of_publisher), last)
            if len(self._last) > self._limit:
                del self._last[next(iter(self._last))]

    def highest(self) -> dict[int, int]:
        """The highest publisher sequence number of each."""
        return {publisher: seq for publisher, (seq, _) in self._last.items()}

    def runs_between(self, first: int, last: int) -> tuple[Run, ...]:
        """Runs that add up to first..last and name each publisher that was last heard of there."""
        if self._order is None:
            self._order = [(seq, who, highest) for who, (highest, seq) in self._last.items()]
        low = bisect_left(self._order, (first,))
        high = bisect_right(self._order, (last + 1,))
        return _spread(self._order[low:high], first, last)


class Heard:
    """By publisher: where it was last heard in a stretch of stored runs, and its number there."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}

    def take(self, stored: Sequence[StoredRun], first: int, last: int) -> None:
        """What stored runs say about these numbers, which follow those before."""
        for publisher, last_of_publisher, begin, end in stored:
            beyond = max(0, end - last)
            if publisher != UNKNOWN_PUBLISHER and end >= first and begin <= last:
                self._last[publisher] = (end - beyond, last_of_publisher - beyond)

    def runs(self, first: int, last: int) -> tuple[Run, ...]:
        """Runs that add up to first..last and name each publisher heard there."""
        known = sorted((seq, who, highest) for who, (seq, highest) in self._last.items())
        return _spread(known, first, last)


def runs_within(stored: Sequence[StoredRun], first: int, last: int) -> tuple[Run, ...]:
    """All that stored runs say about first..last; they may begin before and end behind."""
    runs: list[Run] = []
    at = first
    for publisher, last_of_publisher, begin, end in stored:
        if end < first or begin > last:
            continue
        begin, beyond = max(begin, first), max(0, end - last)
        end -= beyond
        if begin > at:
            runs.append(Run(UNKNOWN_PUBLISHER, 0, begin - at))
        count = end + 1 - begin
        if publisher == UNKNOWN_PUBLISHER:
            runs.append(Run(UNKNOWN_PUBLISHER, 0, count))
        else:
            runs.append(Run(publisher, last_of_publisher - beyond + 1 - count, count))
        at = end + 1
    if all(run.publisher == UNKNOWN_PUBLISHER for run in runs):
        return ()
    if at <= last:
        runs.append(Run(UNKNOWN_PUBLISHER, 0, last + 1 - at))
    return joined_runs([tuple(runs)])


def _spread(known: Sequence[tuple[int, int, int]], first: int, last: int) -> tuple[Run, ...]:
    """Runs that add up to first..last, with publishers where they were last heard of."""
    runs: list[Run] = []
    at = first
    for seq, publisher, highest in known:
        if seq > at:
            runs.append(Run(UNKNOWN_PUBLISHER, 0, seq - at))
        runs.append(Run(publisher, highest, 1))
        at = seq + 1
    if runs and at <= last:
        runs.append(Run(UNKNOWN_PUBLISHER, 0, last + 1 - at))
    return tuple(runs)


StoredRun = tuple[int, int, int, int]
"""A publisher and its last number; the stream's first and last number it is about."""


def runs_in(rows: Rows) -> list[StoredRun]:
    """All stored runs."""
    found: list[StoredRun] = []
    for at, _, first, _, count, _ in rows.record_table().tolist():
        start = at + FRAME_BYTES + BATCH_HEADER_BYTES
        stored = np.frombuffer(rows.buffer, "<u8", 3 * count, start).reshape(count, 3)
        for publisher, publisher_first, covered in stored.tolist():
            last_of_publisher = publisher_first + covered - 1
            found.append((publisher, last_of_publisher, first, first + covered - 1))
            first += covered
    return found
