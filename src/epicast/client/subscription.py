"""A subscription: items one by one, in a loop or by hand, or whole batches."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import overload

from epicast.client.errors import Closed
from epicast.client.feed import Feed
from epicast.client.items import Item, Reset, Watermark
from epicast.client.reading import Reading
from epicast.client.watermarks import Following
from epicast.core import EventBatch
from epicast.runtime.waiting import in_thread, next_turn

_ITEMS_PER_TURN = 2000
"""After so many items without waiting, the rest of the application gets a turn."""


class Subscription:
    """Made by `Stream.subscribe`. Every event, in order, or the tombstone that stands for it.

    To be read by one task at a time. Leaving a loop closes the subscription, unless it was
    entered with `async with`: then it can be read on until the end of that block.
    """

    def __init__(self, feed: Feed, reading: Reading, following: Following | None) -> None:
        self._feed = feed
        self._reading = reading
        self._following = following
        self._turn_items = 0
        self._entered = False

    # -- reading ---------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Item]:
        return self._items()

    async def _items(self) -> AsyncIterator[Item]:
        # A generator with a plain loop inside is the fastest an `async for` can be served.
        reading = self._reading
        try:
            while True:
                reading.in_hand = 1
                for item in reading.iterator:
                    yield item
                reading.in_hand = 0
                if not await self.load(None):
                    return
        finally:
            await self._left()

    async def batches(self) -> AsyncIterator[EventBatch | Reset]:
        """Whole batches, for speed: columns instead of objects.

        Numbers that a batch covers without a row are tombstones. The watermark is behind a batch
        once the next one is asked for.
        """
        try:
            while (batch := await self.next_batch()) is not None:
                yield batch
        finally:
            await self._left()

    @overload
    async def get(self) -> Item: ...

    @overload
    async def get(self, timeout: float | None) -> Item | None: ...

    async def get(self, timeout: float | None = None) -> Item | None:
        """The next item; None if none came within `timeout` seconds. Raises `Closed`."""
        item = self._reading.take()
        if item is None:
            if not await self.load(timeout):
                self._raise_if_over()
                return None
            item = self._reading.take()
        return item

    def get_nowait(self) -> Item | None:
        """The next item if it is there already."""
        item = self._reading.take()
        if item is None:
            if not self._load_nowait():
                self._raise_if_over()
                return None
            item = self._reading.take()
        return item

    async def pull(self, max_items: int = 1000, timeout: float | None = None) -> list[Item]:
        """At least one item and at most `max_items`, those that are there; an empty list if none
        came within `timeout` seconds. Raises `Closed`."""
        if max_items < 1:
            raise ValueError(f"max_items: {max_items} is not at least 1")
        reading = self._reading
        items = reading.take_some(max_items)
        if not items:
            if not await self.load(timeout):
                self._raise_if_over()
                return []
            items = reading.take_some(max_items)
        return items

    # -- where it is -----------------------------------------------------------------------------

    @property
    def watermark(self) -> Watermark:
        """Everything up to here was dealt with: handed out, and the next thing asked for.

        Subscribing again `after` it misses nothing; the item in hand comes again.
        """
        return self._reading.watermark

    def staleness(self) -> float:
        """Seconds, at most, since this subscription had everything the proxy had.

        Known from heartbeats: while all is well it stays below three heartbeat periods; it grows
        while the consumer lags, or nothing is heard of the proxy. Infinite before the first.
        """
        reached_at = self._feed.freshness.reached_at(self._reading.handed_out)
        if reached_at is None:
            return float("inf")
        return max(0, time.monotonic_ns() - reached_at) / 1e9

    @property
    def closed(self) -> bool:
        return self._feed.ended

    # -- life ------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Nothing more is read. The watermark stays, and is saved if it is to be saved."""
        self._feed.close()
        following, self._following = self._following, None
        if following is not None:
            await in_thread(following.close)

    async def __aenter__(self) -> Subscription:
        self._entered = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _left(self) -> None:
        if not self._entered:
            await self.close()

    # -- the steps of reading, also for the synchronous face -------------------------------------

    def at_hand(self) -> Iterator[Item]:
        """The items that need no waiting, handed out one by one."""
        self._reading.in_hand = 1
        return self._reading.iterator

    def take_at_hand(self) -> Item | None:
        return self._reading.take()

    async def load(self, timeout: float | None) -> bool:
        """Have items at hand; False if none came in time, or the subscription was closed."""
        self._reading.in_hand = 0
        while (batch := await self._next(timeout)) is not None:
            if self._reading.load(batch, more=self._feed.more):
                return True
        return False

    def _load_nowait(self) -> bool:
        self._reading.in_hand = 0
        self._check_saving()
        while (batch := self._feed.take()) is not None:
            if self._reading.load(batch, more=self._feed.more):
                return True
        return False

    async def next_batch(self, timeout: float | None = None) -> EventBatch | Reset | None:
        """A batch as a whole; None if the subscription was closed, or none came in time."""
        reading = self._reading
        if reading.has_begun:
            raise Closed(
                "this subscription is being read item by item: for batches, subscribe again after "
                "its watermark"
            )
        reading.in_hand = 0
        batch = await self._next(timeout)
        if batch is not None:
            reading.hold(batch)
        return batch

    async def _next(self, timeout: float | None) -> EventBatch | Reset | None:
        feed = self._feed
        self._check_saving()
        if self._turn_items >= _ITEMS_PER_TURN:
            self._turn_items = 0
            await next_turn()
        while (batch := feed.take()) is None:
            if feed.ended:
                if feed.error is not None:
                    raise feed.error
                return None
            self._turn_items = 0
            if not await feed.wait(timeout):
                return None
        self._turn_items += batch.rows if isinstance(batch, EventBatch) else 1
        return batch

    def _check_saving(self) -> None:
        if self._following is not None:
            self._following.raise_error()

    def _raise_if_over(self) -> None:
        if self._feed.ended:
            self._feed.raise_ended()
