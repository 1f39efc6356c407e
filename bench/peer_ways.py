"""Every public way of consuming a stream, event by event or by batch, each as a function that
takes everything up to a number and returns the payloads it was given.

They do what an application would do that keeps what it gets; whoever calls them compares it with
what was published, after the clock has stopped. Batches are compared as they come, because
taking them apart would cost more than receiving them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import epicast
from bench.rivals.events import EVENT_BYTES, events
from epicast import sync

PULL = 1000
_PAUSE_S = 0.0005
"""Between looks of somebody who does not wait."""


class Wrong(AssertionError):
    """Something was received that was not published."""


async def async_for(subscription: epicast.Subscription, last: int) -> list[bytes]:
    received: list[bytes] = []
    keep = received.append
    async for event in subscription:
        keep(event.payload)
        if event.seq == last:
            break
    return received


async def get(subscription: epicast.Subscription, last: int) -> list[bytes]:
    received: list[bytes] = []
    keep, take = received.append, subscription.get
    seq = 0
    while seq < last:
        event = await take()
        keep(event.payload)
        seq = event.seq
    return received


async def get_nowait(subscription: epicast.Subscription, last: int) -> list[bytes]:
    received: list[bytes] = []
    keep, take = received.append, subscription.get_nowait
    seq = 0
    while seq < last:
        event = take()
        if event is None:
            await asyncio.sleep(_PAUSE_S)
            continue
        keep(event.payload)
        seq = event.seq
    return received


async def pull(subscription: epicast.Subscription, last: int) -> list[bytes]:
    received: list[bytes] = []
    seq = 0
    while seq < last:
        some = await subscription.pull(PULL)
        received += [event.payload for event in some]
        seq = some[-1].seq
    return received


async def batches(subscription: epicast.Subscription, last: int) -> None:
    check = BatchCheck()
    async for batch in subscription.batches():
        check.take(batch)
        if batch.last == last:
            break


def sync_for(subscription: sync.Subscription, last: int) -> list[bytes]:
    received: list[bytes] = []
    keep = received.append
    for event in subscription:
        keep(event.payload)
        if event.seq == last:
            break
    return received


def sync_get(subscription: sync.Subscription, last: int) -> list[bytes]:
    received: list[bytes] = []
    keep, take = received.append, subscription.get
    seq = 0
    while seq < last:
        event = take()
        keep(event.payload)
        seq = event.seq
    return received


def sync_pull(subscription: sync.Subscription, last: int) -> list[bytes]:
    received: list[bytes] = []
    seq = 0
    while seq < last:
        some = subscription.pull(PULL)
        received += [event.payload for event in some]
        seq = some[-1].seq
    return received


def sync_batches(subscription: sync.Subscription, last: int) -> None:
    check = BatchCheck()
    for batch in subscription.batches():
        check.take(batch)
        if batch.last == last:
            break


Way = Callable[[epicast.Subscription, int], Awaitable[list[bytes] | None]]
SyncWay = Callable[[sync.Subscription, int], list[bytes] | None]
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
        self._bytes = b"".join(events(1000))
        self._cycle = len(self._bytes)

    def part(self, first: int, rows: int) -> bytes:
        start = (first - 1) * EVENT_BYTES % self._cycle
        end = start + rows * EVENT_BYTES
        while end > len(self._bytes):
            self._bytes += self._bytes
        return self._bytes[start:end]


class BatchCheck:
    """Batch by batch: every byte, every length, every number."""

    def __init__(self, expected: Expected | None = None) -> None:
        self._expected = expected or Expected()
        self._next = 1

    def take(self, batch: object) -> None:
        if not isinstance(batch, epicast.EventBatch) or batch.first != self._next:
            raise Wrong(f"{batch} where event {self._next} was to come")
        if batch.tombstones or bytes(batch.data) != self._expected.part(batch.first, batch.rows):
            raise Wrong(f"{batch} is not what was published")
        lengths = batch.offsets[1:] - batch.offsets[:-1]
        if lengths[::2].any() or (lengths[1::2] != EVENT_BYTES).any():
            raise Wrong(f"{batch} has events of other lengths than were published")
        self._next = batch.last + 1


def compare(received: Iterable[bytes], count: int) -> None:
    if list(received) != events(count):
        raise Wrong("what was received is not what was published")
