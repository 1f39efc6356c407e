"""Every public way of consuming a stream, event by event or by batch, each as a function that
takes everything up to the last event.

They do what an application would do that keeps what it gets for a while: payloads gather, and every
few thousand of them are compared with what was published. All of them are, while the clock runs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import epicast
from bench.rivals.events import EVENT_BYTES, events
from epicast import sync

PULL = 1000
_PAUSE_S = 0.0005
"""Between looks of somebody who does not wait."""
_CYCLE = 1000
"""After so many events the same ones come again."""


class Wrong(AssertionError):
    """Something was received that was not published."""


class EventCheck:
    """Payloads gather in `received`; with the event numbered `stop`, `settle` compares them."""

    SIZE = 10_000
    _EXPECTED = events(SIZE + _CYCLE)

    def __init__(self, last: int, *, complete: bool = True) -> None:
        """Of a stream whose events are collected, not all arrive: `complete` is false."""
        self.received: list[bytes] = []
        self.stop = min(self.SIZE, last)
        self._last = last
        self._settled = 0
        self._complete = complete

    def settle(self) -> int:
        """The number to stop at next; 0 if everything is there."""
        received, stop = self.received, self.stop
        if self._complete:
            start = self._settled % _CYCLE
            wanted = self._EXPECTED[start : start + stop - self._settled]
            if received != wanted:
                raise Wrong(f"events {self._settled + 1} to {stop} are not what was published")
        received.clear()
        self._settled = stop
        self.stop = min(stop + self.SIZE, self._last)
        return 0 if stop == self._last else self.stop


async def async_for(subscription: epicast.Subscription, check: EventCheck) -> None:
    keep, stop = check.received.append, check.stop
    async for event in subscription:
        keep(event.payload)
        if event.seq == stop:
            stop = check.settle()
            if not stop:
                break


async def get(subscription: epicast.Subscription, check: EventCheck) -> None:
    keep, take = check.received.append, subscription.get
    stop = check.stop
    while stop:
        event = await take()
        keep(event.payload)
        if event.seq == stop:
            stop = check.settle()


async def get_nowait(subscription: epicast.Subscription, check: EventCheck) -> None:
    keep, take = check.received.append, subscription.get_nowait
    stop = check.stop
    while stop:
        event = take()
        if event is None:
            await asyncio.sleep(_PAUSE_S)
            continue
        keep(event.payload)
        if event.seq == stop:
            stop = check.settle()


async def pull(subscription: epicast.Subscription, check: EventCheck) -> None:
    received, stop = check.received, check.stop
    seq = 0
    while stop:
        some = await subscription.pull(min(PULL, stop - seq))
        received += [event.payload for event in some]
        seq = some[-1].seq
        if seq == stop:
            stop = check.settle()


async def batches(subscription: epicast.Subscription, check: "BatchCheck") -> None:
    async for batch in subscription.batches():
        if check.take(batch):
            break


def sync_for(subscription: sync.Subscription, check: EventCheck) -> None:
    keep, stop = check.received.append, check.stop
    for event in subscription:
        keep(event.payload)
        if event.seq == stop:
            stop = check.settle()
            if not stop:
                break


def sync_get(subscription: sync.Subscription, check: EventCheck) -> None:
    keep, take = check.received.append, subscription.get
    stop = check.stop
    while stop:
        event = take()
        keep(event.payload)
        if event.seq == stop:
            stop = check.settle()


def sync_pull(subscription: sync.Subscription, check: EventCheck) -> None:
    received, stop = check.received, check.stop
    seq = 0
    while stop:
        some = subscription.pull(min(PULL, stop - seq))
        received += [event.payload for event in some]
        seq = some[-1].seq
        if seq == stop:
            stop = check.settle()


def sync_batches(subscription: sync.Subscription, check: "BatchCheck") -> None:
    for batch in subscription.batches():
        if check.take(batch):
            break


Way = Callable[[epicast.Subscription, Any], Awaitable[None]]
SyncWay = Callable[[sync.Subscription, Any], None]
WAYS: dict[str, Way] = {
    "async_for": async_for,
    "get": get,
    "get_nowait": get_nowait,
    "pull": pull,
    "batches": batches,
}
SYNC_WAYS: dict[str, SyncWay] = {
    "sync_for": sync_for,
    "sync_get": sync_get,
    "sync_pull": sync_pull,
    "sync_batches": sync_batches,
}
BY_BATCH = ("batches", "sync_batches")


class Expected:
    """The bytes of any run of events, to be shared by many checks."""

    def __init__(self) -> None:
        self._bytes = b"".join(events(_CYCLE))
        self._cycle = len(self._bytes)

    def part(self, first: int, rows: int) -> bytes:
        start = (first - 1) * EVENT_BYTES % self._cycle
        end = start + rows * EVENT_BYTES
        while end > len(self._bytes):
            self._bytes += self._bytes
        return self._bytes[start:end]


class BatchCheck:
    """Batch by batch: every byte, every length, every number."""

    def __init__(self, last: int, expected: Expected | None = None) -> None:
        self._last = last
        self._expected = expected or Expected()
        self._next = 1

    def take(self, batch: object) -> bool:
        """Whether that was the last one."""
        if not isinstance(batch, epicast.EventBatch) or batch.first != self._next:
            raise Wrong(f"{batch} where event {self._next} was to come")
        if batch.tombstones or bytes(batch.data) != self._expected.part(batch.first, batch.rows):
            raise Wrong(f"{batch} is not what was published")
        if batch.lengths != (0, EVENT_BYTES):
            raise Wrong(f"{batch} has events of other lengths than were published")
        self._next = batch.last + 1
        return batch.last == self._last


def check_for(way: str, last: int, *, complete: bool = True) -> EventCheck | BatchCheck:
    return BatchCheck(last) if way in BY_BATCH else EventCheck(last, complete=complete)
