"""What arrives from a topic, until the application takes it.

A topic has no history to read from: what an application does not take in time is given up, oldest
first, and a `Gap` says so in its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType

from epicast.client.errors import Closed
from epicast.client.events import events_of
from epicast.client.topics.items import Confirmed, Gap, Revised, TopicItem
from epicast.core import ConfigError, EpicastError, EventBatch
from epicast.runtime.waiting import Bell, next_turn

DEFAULT_WINDOW_BYTES = 4 << 20
_BATCH_BYTES = 512
"""What a waiting batch costs besides its buffer, roughly."""
_ITEMS_PER_TURN = 2000
"""After so many events without waiting, the rest of the application gets a turn."""


Queued = EventBatch | Gap | Confirmed | Revised


class TopicSubscription:
    """Made by `Topic.subscribe`; gets what is delivered from then on.

    To be read by one task at a time. Leaving a loop closes the subscription, unless it was
    entered with `async with`: then it can be read on until the end of that block.
    """

    def __init__(self, window_bytes: int, forget: Callable[[TopicSubscription], object]) -> None:
        if window_bytes < 1:
            raise ConfigError(f"window_bytes: {window_bytes} is not at least 1")
        self.dropped = 0
        """Events given up since the beginning."""
        self.closed = False
        self._error: EpicastError | None = None
        self._window_bytes = window_bytes
        self._forget = forget
        self._queue: deque[Queued] = deque()
        self._queued_bytes = 0
        self._gap = 0
        self._bell = Bell()
        self._at_hand: Iterator[TopicItem] = iter(())
        self._turn_items = 0
        self._entered = False

    # -- from the topic --------------------------------------------------------------------------

    def receive(self, batch: EventBatch | Gap) -> None:
        queue = self._queue
        self._put(batch)
        while self._queued_bytes > self._window_bytes and len(queue) > 1:
            given_up = queue.popleft()
            self._queued_bytes -= _cost(given_up)
            self._gap += _events(given_up)
            self.dropped += _events(given_up)
        self._bell.ring()

    def _put(self, item: Queued) -> None:
        self._queue.append(item)
        self._queued_bytes += _cost(item)

    def end(self, error: EpicastError | None) -> None:
        """Nothing more will come; what is here can still be read, then `error` is raised."""
        if not self.closed:
            self.closed = True
            self._error = error
            self._bell.ring()

    # -- reading ---------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[TopicItem]:
        return self._items()

    async def _items(self) -> AsyncIterator[TopicItem]:
        try:
            while True:
                for item in self._at_hand:
                    yield item
                if not await self.load(None):
                    return
        finally:
            self._left()

    async def batches(self) -> AsyncIterator[Queued]:
        """Whole batches, for speed: columns instead of objects."""
        try:
            while (batch := await self.next_batch()) is not None:
                yield batch
        finally:
            self._left()

    async def get(self, timeout: float | None = None) -> TopicItem | None:
        """The next item; None if none came within `timeout` seconds. Raises `Closed`."""
        item = next(self._at_hand, None)
        while item is None:
            if not await self.load(timeout):
                if self.closed:
                    raise self._error or Closed("the subscription was closed")
                return None
            item = next(self._at_hand, None)
        return item

    async def next_batch(self, timeout: float | None = None) -> Queued | None:
        """A batch as a whole; None if the subscription was closed, or none came in time."""
        if self._turn_items >= _ITEMS_PER_TURN:
            self._turn_items = 0
            await next_turn()
        while (batch := self._take()) is None:
            if self.closed:
                if self._error is not None:
                    raise self._error
                return None
            self._turn_items = 0
            if not await self._bell.wait(timeout):
                return None
        self._turn_items += batch.rows if isinstance(batch, EventBatch) else 1
        return batch

    def at_hand(self) -> Iterator[TopicItem]:
        """The items that need no waiting, handed out one by one."""
        return self._at_hand

    async def load(self, timeout: float | None) -> bool:
        """Have items at hand; False if none came in time, or the subscription was closed."""
        batch = await self.next_batch(timeout)
        if batch is None:
            return False
        self._at_hand = iter(events_of(batch) if isinstance(batch, EventBatch) else [batch])
        return True

    def _take(self) -> Queued | None:
        if self._gap:  # what was given up is older than all that is here
            gap, self._gap = Gap(self._gap), 0
            return gap
        if not self._queue:
            return None
        batch = self._queue.popleft()
        self._queued_bytes -= _cost(batch)
        return batch

    # -- life ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing more is received; what was not read is forgotten."""
        self._forget(self)
        self.end(None)
        self._queue.clear()
        self._queued_bytes = self._gap = 0
        self._at_hand = iter(())

    async def __aenter__(self) -> TopicSubscription:
        self._entered = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _left(self) -> None:
        if not self._entered:
            self.close()


def _events(item: Queued) -> int:
    return item.rows if isinstance(item, EventBatch) else item.events


def _cost(item: Queued) -> int:
    """What it keeps alive."""
    if not isinstance(item, EventBatch):
        return _BATCH_BYTES
    return _BATCH_BYTES + max(item.pinned_bytes, item.wire_size())
