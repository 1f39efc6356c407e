"""The newest events of one stream, at hand."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import Protocol as Interface

from epicast.core import EventBatch, part_of

_SMALL_BYTES = 4096
"""Batches up to this size are copied out of what they were received in, which may be much larger;
larger ones come dense enough."""
_DEAD_ENTRIES = 256


class EventBuffer(Interface):
    """What an agent keeps of a stream: contiguous, bounded, newest last."""

    @property
    def first(self) -> int:
        """The oldest number held; 0 if there is none."""

    @property
    def last(self) -> int:
        """The newest number held; 0 if there is none."""

    def add(self, batch: EventBatch) -> None:
        """Keep a batch. One that does not continue what is there starts anew."""

    def read(self, first: int, last: int, max_bytes: int) -> list[EventBatch]:
        """What is held of first..last, ascending: at least a batch if anything, then as many as
        fit. What no batch covers is not here any more, or not yet."""


class RecentBatches:
    """An `EventBuffer` that keeps batches as they came."""

    __slots__ = ("_batches", "_bytes", "_lasts", "_max_bytes", "_start")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._batches: list[EventBatch | None] = []
        self._lasts: list[int] = []
        self._start = 0
        self._bytes = 0

    @property
    def first(self) -> int:
        batch = self._batches[self._start] if self._batches else None
        return batch.first if batch is not None else 0

    @property
    def last(self) -> int:
        return self._lasts[-1] if self._lasts else 0

    def add(self, batch: EventBatch) -> None:
        newest = self._batches[-1] if self._batches else None
        if newest is not None and (newest.last + 1 != batch.first or newest.epoch != batch.epoch):
            self.clear()
        size = batch.wire_size()
        if size <= _SMALL_BYTES and batch.pinned_bytes > 2 * size:
            batch = batch.copied()
        self._batches.append(batch)
        self._lasts.append(batch.last)
        self._bytes += size
        while self._bytes > self._max_bytes:
            oldest = self._batches[self._start]
            assert oldest is not None
            self._bytes -= oldest.wire_size()
            self._batches[self._start] = None
            self._start += 1
            if self._start == len(self._batches):
                self.clear()
                return
        if self._start > _DEAD_ENTRIES and 2 * self._start > len(self._batches):
            del self._batches[: self._start]
            del self._lasts[: self._start]
            self._start = 0

    def clear(self) -> None:
        self._batches.clear()
        self._lasts.clear()
        self._start = 0
        self._bytes = 0

    def read(self, first: int, last: int, max_bytes: int) -> list[EventBatch]:
        start = bisect_left(self._lasts, first, self._start)
        held = (batch for batch in islice(self._batches, start, None) if batch is not None)
        return part_of(held, first, last, max_bytes)
