"""Subscriptions as their log tells of them: where each began, how far it came, in which epochs."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from epicast.evidence import EvidenceError, Kind
from epicast.pipeline.audit.logs import column


class Segment(Struct):
    """What one subscription got of one epoch of its stream."""

    subscription: int
    stream: int
    epoch: int
    first: int
    """Where it begins."""
    reached: int
    """The highest number it covered, or says it did when it was closed."""
    closed: int | None = None
    """When it ended in good order; what was stored well before that is owed, too."""


class Skip(NamedTuple):
    """Numbers a subscription was told it will not get, in the epoch it is in: retention."""

    segment: int
    first: int
    last: int
    time: int
    row: int


class Tracked(NamedTuple):
    """The rows of a chunk that are events or tombstones, by subscription."""

    rows: NDArray[np.int64]
    """Where they stand in the chunk."""
    segments: NDArray[np.int64]
    late: NDArray[np.bool_]
    """Those that begin at or below what their subscription had before, or are of another epoch
    than it had been told of."""
    skips: list[Skip]


_Part = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]
"""Rows, segments, and whether they are late."""


class Tracker:
    def __init__(self, starts_late: bool) -> None:
        """A log whose first rows are gone has subscriptions of which nobody saw the beginning."""
        self.segments: list[Segment] = []
        self._starts_late = starts_late
        self._current: dict[int, int] = {}
        """By subscription, the segment it is in."""
        self._known: dict[tuple[int, int], int] = {}
        """By subscription and epoch."""

    def state(self) -> bytes:
        """To go on from here elsewhere: `Tracker.restored`."""
        return pickle.dumps(self)

    @staticmethod
    def restored(state: bytes) -> Tracker:
        tracker: Tracker = pickle.loads(state)
        return tracker

    def take(self, batches: list[Any]) -> Tracked:
        """The next rows of the log."""
        names = ("kind", "subscription", "stream", "epoch", "first", "last", "time")
        columns = [column(batches, name) for name in names]
        order = np.argsort(columns[1], kind="stable")
        sorted_rows = [each[order] for each in columns]
        edges = np.flatnonzero(np.diff(sorted_rows[1])) + 1
        found: list[_Part] = []
        skips: list[Skip] = []
        for begin, end in zip([0, *edges], [*edges, len(order)], strict=True):
            part = [each[begin:end] for each in sorted_rows]
            found += self._take_one(skips, order[begin:end], *part)
        if not found:
            nothing = np.empty(0, dtype=np.int64)
            return Tracked(nothing, nothing, np.empty(0, dtype=np.bool_), skips)
        rows, segments, late = map(np.concatenate, zip(*found, strict=True))
        return Tracked(rows, segments, late, skips)

    def _take_one(
        self, skips: list[Skip], rows: Any, kinds: Any, subscriptions: Any, streams: Any,
        epochs: Any, firsts: Any, lasts: Any, times: Any,
    ) -> list[_Part]:  # fmt: skip
        """Rows of one subscription: from one that changes its state to the next."""
        subscription, stream = int(subscriptions[0]), int(streams[0])
        if (streams != stream).any():
            raise EvidenceError(f"subscription {subscription} is of more than one stream")
        found = []
        at = 0
        changes = np.flatnonzero((kinds != Kind.EVENTS) & (kinds != Kind.TOMBSTONES)).tolist()
        for change in [*changes, len(kinds)]:
            if change > at:
                span = slice(at, change)
                found += self._span(
                    subscription, stream, rows[span], epochs[span], firsts[span], lasts[span]
                )
            at = change + 1
            if change < len(kinds):
                skipped = self._change(
                    subscription, stream, Kind(int(kinds[change])), int(epochs[change]),
                    int(firsts[change]), int(lasts[change]), int(times[change]),
                )  # fmt: skip
                if skipped:
                    skips.append(Skip(*skipped, int(times[change]), int(rows[change])))
        return found

    def _change(
        self, subscription: int, stream: int, kind: Kind, epoch: int, first: int, last: int,
        time: int,
    ) -> tuple[int, int, int] | None:  # fmt: skip
        """The segment and the numbers it leaves out, if it does."""
        if kind in (Kind.OPENED, Kind.RESET):
            index = self._known.get((subscription, epoch))
            if index is None:
                index = self._begin(subscription, stream, epoch, first)
            self._current[subscription] = index
            segment = self.segments[index]
            if first > segment.reached + 1:
                skipped = index, segment.reached + 1, first - 1
                segment.reached = first - 1
                return skipped
        elif kind == Kind.CLOSED and subscription in self._current:
            segment = self.segments[self._current[subscription]]
            segment.closed = time
            segment.reached = max(segment.reached, last)
        return None

    def _begin(self, subscription: int, stream: int, epoch: int, first: int) -> int:
        self.segments.append(Segment(subscription, stream, epoch, first, first - 1))
        self._known[subscription, epoch] = len(self.segments) - 1
        return len(self.segments) - 1

    def _span(
        self, subscription: int, stream: int, rows: Any, epochs: Any, firsts: Any, lasts: Any
    ) -> list[_Part]:
        if (epochs == epochs[0]).all():
            return [self._one_epoch(subscription, stream, rows, int(epochs[0]), firsts, lasts)]
        return [
            self._one_epoch(subscription, stream, rows[here], epoch, firsts[here], lasts[here])
            for epoch in np.unique(epochs).tolist()
            for here in [epochs == epoch]
        ]

    def _one_epoch(
        self, subscription: int, stream: int, rows: Any, epoch: int, firsts: Any, lasts: Any
    ) -> _Part:
        index = self._known.get((subscription, epoch))
        expected = index is not None and self._current.get(subscription) == index
        if index is None:
            index = self._begin(subscription, stream, epoch, int(firsts[0]))
            if self._starts_late and subscription not in self._current:
                self._current[subscription] = index
                expected = True
        segment = self.segments[index]
        before = np.maximum.accumulate(
            np.concatenate([[max(segment.reached, segment.first - 1)], lasts.astype(np.int64)])
        )
        late = firsts.astype(np.int64) <= before[:-1] if expected else np.ones(len(rows), np.bool_)
        segment.reached = int(before[-1])
        return rows, np.full(len(rows), index), late
