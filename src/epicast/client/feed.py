"""What arrives for one subscription, until the application takes it.

The queue is bounded by the window: the protocol sends no more than that ahead of what was
reported as consumed, and reads the rest from history when it is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from epicast.client.edges import Driver, Edge
from epicast.client.errors import Closed
from epicast.client.evidence import NodeEvidence
from epicast.client.freshness import Freshness
from epicast.client.items import Reset, Watermark
from epicast.core import EpicastError, EventBatch
from epicast.protocols.sprinkler.messages import StreamInfo
from epicast.protocols.sprinkler.notices import Restarted
from epicast.runtime.waiting import Bell, call_soon

_PINS_TOO_MUCH = 32
"""A batch that waits and keeps so many times its own size alive is copied."""


class Feed:
    """Used in the loop's thread only."""

    __slots__ = ("_arrived", "_bell", "_driver", "_edge", "_evidence", "_forget", "_handed",
                 "_handed_bytes", "_place", "_queue", "_report_bytes", "_restarts", "ended",
                 "error", "freshness", "info", "number")  # fmt: skip

    def __init__(
        self,
        number: int,
        info: StreamInfo,
        start: Watermark,
        window_bytes: int,
        edge: Edge,
        driver: Driver,
        forget: Callable[[int], object],
    ) -> None:
        self.number = number
        self.info = info
        self.ended = False
        self.error: EpicastError | None = None
        """Why it ended, unless the application wanted it to."""
        self.freshness = Freshness()
        self._arrived = start
        self._queue: deque[EventBatch | Reset] = deque()
        self._restarts: deque[Watermark] = deque()
        self._handed: EventBatch | None = None
        self._handed_bytes = 0
        self._report_bytes = max(1, window_bytes // 4)
        self._bell = Bell()
        self._edge = edge
        self._driver = driver
        self._forget = forget
        self._evidence: NodeEvidence | None = None
        self._place = start
        """How far evidence says it is."""

    def note_all(self, evidence: NodeEvidence, start: Watermark) -> None:
        """Write down what the application gets; `start` is where it begins, as far as known."""
        self._evidence = evidence
        self._place = start
        evidence.opened(self.number, self.info.id, start)

    # -- from the protocol -----------------------------------------------------------------------

    def receive(self, batch: EventBatch) -> None:
        if self._restarts:
            self._apply_restarts(Watermark(batch.epoch, batch.first - 1))
        if self._queue and batch.pinned_bytes > _PINS_TOO_MUCH * batch.wire_size():
            batch = batch.copied()
        self._arrived = Watermark(batch.epoch, batch.last)
        self._queue.append(batch)
        self._bell.ring()

    def restart(self, notice: Restarted) -> None:
        """Notices overtake the batches of the same step, so those get their chance first."""
        self._restarts.append(Watermark(notice.epoch, notice.seq))
        call_soon(self._apply_restarts)

    def _apply_restarts(self, place: Watermark | None = None) -> None:
        """Those up to the one a batch follows, if it follows any; or all of them."""
        restarts = self._restarts
        due = len(restarts) if place is None else 0
        if place is not None and place in restarts:
            due = restarts.index(place) + 1
        for _ in range(0 if self.ended else due):
            self._arrived = restarts.popleft()
            self._queue.append(Reset(self.info.id, self._arrived))
            self._bell.ring()

    # -- for the application ---------------------------------------------------------------------

    @property
    def more(self) -> bool:
        return bool(self._queue)

    def take(self) -> EventBatch | Reset | None:
        """What comes next, if it is there. What was taken before counts as consumed now."""
        handed = self._handed
        if handed is not None:
            self._handed = None
            self._handed_bytes += handed.wire_size()
            if self._handed_bytes >= self._report_bytes:
                self._handed_bytes = 0
                self._report(handed)
        if not self._queue:
            return None
        batch = self._queue.popleft()
        if self._evidence is not None:
            self._note(self._evidence, batch)
        if isinstance(batch, EventBatch):
            self._handed = batch
        return batch

    def _note(self, evidence: NodeEvidence, item: EventBatch | Reset) -> None:
        stream = self.info.id
        if isinstance(item, Reset):
            self._place = item.watermark
        else:
            if item.epoch != self._place.epoch:  # it was not known when the subscription began
                place = Watermark(item.epoch, item.first - 1)
                evidence.handed_out(self.number, stream, Reset(stream, place))
            self._place = Watermark(item.epoch, item.last)
        evidence.handed_out(self.number, stream, item)

    def _report(self, batch: EventBatch) -> None:
        # A number of an epoch that is over would be taken for one of the present epoch.
        if not self.ended and not self._restarts and batch.epoch == self._arrived.epoch:
            self._edge.consumed(self.number, batch.last)
            self._driver.wake()

    async def wait(self, timeout: float | None = None) -> bool:
        """Until something arrives or it ends; False if `timeout` seconds pass before."""
        return await self._bell.wait(timeout)

    def raise_ended(self) -> None:
        raise self.error or Closed(f"this subscription to {self.info.name!r} was closed")

    def end(self, error: EpicastError | None = None) -> None:
        """Nothing more comes. What waits is not for the application any more, unless it failed:
        then it gets what had arrived first."""
        if self.ended:
            return
        self.ended = True
        self.error = error
        if error is None:
            self._queue.clear()
        if self._evidence is not None:
            self._evidence.closed(self.number, self.info.id, self._place)
        self._forget(self.number)
        self._bell.ring()

    def close(self, error: EpicastError | None = None) -> None:
        if not self.ended:
            self.end(error)
            self._edge.unsubscribe(self.number)
            self._driver.wake()
