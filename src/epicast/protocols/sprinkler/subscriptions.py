"""The subscriber's side: where each subscription of the application is, and how far it may get."""

from __future__ import annotations

from collections import deque

from epicast.core import Effects, EventBatch, NodeId
from epicast.protocols.sprinkler.messages import Consumed, Subscribe

LOCAL: NodeId = 0
"""The subscriber is the application this node is part of."""


class Subscription:
    """Delivers contiguous events, at most about a window ahead of what was consumed."""

    __slots__ = ("_consumed", "_unconsumed", "_unreported", "epoch", "fresh", "in_flight", "live",
                 "next", "number", "peer", "remote_number", "stream", "window")  # fmt: skip

    def __init__(self, number: int, stream: int, epoch: int, after: int, window: int) -> None:
        self.number = number
        self.stream = stream
        self.epoch = epoch
        """0 until the first event has told."""
        self.next = after + 1
        self.window = window
        self.fresh = True
        """Nobody serves it yet."""
        self.live = False
        """Served by this node itself, not by its proxy."""
        self.peer: NodeId = LOCAL
        self.remote_number = 0
        """If the subscriber is another node: what that calls it."""
        self.in_flight = 0
        self._unconsumed: deque[tuple[int, int, int]] = deque()
        """Last number of what the subscriber was given, its size, and the size it came in."""
        self._unreported = 0
        self._consumed = after

    def wanted(self) -> Subscribe:
        self._unreported = 0
        return Subscribe(self.number, self.stream, self.epoch, self.next - 1, self.window)

    def take(self, batch: EventBatch) -> EventBatch | None:
        """What of a batch comes next; nothing if it was had already or something is missing.

        What was had already takes room at the sender, too, until it is reported as consumed, but
        none on the way to the subscriber: that may be a node which reports only what it was given.
        """
        if self.epoch != batch.epoch:
            if self.epoch:
                return None
            self.epoch = batch.epoch
        if batch.first > self.next:
            return None
        came = batch.wire_size()
        if batch.last < self.next:
            self._had_already(came)
            return None
        if batch.first < self.next:
            batch = batch.slice(self.next, batch.last)
        size = batch.wire_size()
        self.in_flight += size
        self._unconsumed.append((batch.last, size, came))
        self.next = batch.last + 1
        return batch

    def _had_already(self, came: int) -> None:
        """Reported with what the subscriber still has to consume, at the latest."""
        if not self._unconsumed:
            self._unreported += came
            return
        last, size, before = self._unconsumed[-1]
        self._unconsumed[-1] = (last, size, before + came)

    def consumed(self, seq: int) -> None:
        """The subscriber has taken everything up to `seq`."""
        self._consumed = max(self._consumed, min(seq, self.next - 1))
        unconsumed = self._unconsumed
        while unconsumed and unconsumed[0][0] <= self._consumed:
            _, size, came = unconsumed.popleft()
            self.in_flight -= size
            self._unreported += came

    def had(self, seq: int) -> None:
        """The subscriber has everything up to `seq`, from wherever."""
        self.next = max(self.next, seq + 1)
        self.consumed(seq)

    def report(self, proxy: NodeId, fx: Effects, *, trifles: bool = False) -> None:
        """Tell the proxy that serves this, but not about every trifle at once."""
        if self._unreported * 4 >= self.window or (trifles and self._unreported):
            self._unreported = 0
            fx.send(proxy, Consumed(self.number, self.epoch, self._consumed))

    def restart(self, epoch: int, seq: int) -> None:
        self.epoch = epoch
        self.next = seq + 1
        self._consumed = seq
        self.in_flight = 0
        self._unconsumed.clear()
        self._unreported = 0
