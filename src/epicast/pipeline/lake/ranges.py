"""Ranges of streams: what a batch of Spark is cut into, and how a task gets what is in one.

A range ends where the proxy said, at some time, that the stream was. Until it is read, the world
may have changed: events may have been collected (tombstones stand for them), dropped by retention
(a reset inside the range), or lost with their owner (the epoch is over: the range is empty from
there on, and the next one begins with the reset). In any case a range read twice covers the same
numbers, none of them twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Protocol

from msgspec import Struct

from epicast import EventBatch, Reset, Watermark
from epicast.pipeline.lake.errors import SourceAway

BEGINNING = Watermark(0, 0)


class Range(Struct, frozen=True):
    """Everything behind `after` up to `end`."""

    stream: str
    after: Watermark
    end: Watermark

    @property
    def events(self) -> int:
        """How many numbers it covers; those of an epoch that is over are not counted."""
        same = self.after == BEGINNING or self.after.epoch == self.end.epoch
        return self.end.seq - self.after.seq if same else self.end.seq

    def split(self, parts: int) -> list[Range]:
        """In about equal ranges that follow each other. What crosses epochs stays whole: where in
        the new one it begins is not known before it is read."""
        if self.after != BEGINNING and self.after.epoch != self.end.epoch:
            return [self]
        first, epoch = self.after.seq, self.end.epoch
        parts = max(1, min(parts, self.events))
        bounds = [first + self.events * part // parts for part in range(parts + 1)]
        places = [self.after, *(Watermark(epoch, bound) for bound in bounds[1:])]
        return [Range(self.stream, after, end) for after, end in pairwise(places)]


def cut(ranges: Sequence[Range], parts: int, least: int) -> list[Range]:
    """For so many tasks, none with less than `least` events unless a range is that short."""
    total = sum(found.events for found in ranges)
    pieces: list[Range] = []
    for found in ranges:
        share = -(-parts * found.events // max(1, total))
        pieces += found.split(max(1, min(share, found.events // least)))
    return pieces


class Batches(Protocol):
    """What is used of a subscription."""

    def next_batch(self, timeout: float | None = None) -> EventBatch | Reset | None: ...


def read_range(
    subscription: Batches, wanted: Range, patience_s: float
) -> Iterator[EventBatch | Reset]:
    """What is in a range, in order. The subscription begins behind `wanted.after`."""
    at, end = wanted.after, wanted.end
    while at < end:
        batch = subscription.next_batch(patience_s)
        if batch is None:
            raise SourceAway(
                f"nothing of {wanted.stream!r} came for {patience_s:g} s, at {at} of {end}; is the "
                "proxy up?"
            )
        if isinstance(batch, Reset):
            if batch.watermark.epoch > end.epoch:
                return
            at = min(batch.watermark, end)
            yield Reset(batch.stream, at)
        else:
            if batch.epoch > end.epoch:
                return
            if 0 < at.epoch < batch.epoch:
                # Who has nothing of an epoch yet is not told when it is over.
                yield Reset(batch.stream, Watermark(batch.epoch, batch.first - 1))
            if batch.epoch == end.epoch and batch.last > end.seq:
                batch = batch.slice(batch.first, end.seq)
            at = Watermark(batch.epoch, batch.last)
            yield batch
