"""How long ago a subscription is known to have had everything."""

from __future__ import annotations

from collections import deque

from epicast.client.items import Watermark

_MAX_PENDING = 16


class Freshness:
    """Heartbeats say how far the stream was when they were asked for. Once the subscription is as
    far, it is known to have had everything there was at that moment."""

    __slots__ = ("_pending", "_reached_at")

    def __init__(self) -> None:
        self._reached_at: int | None = None
        self._pending: deque[tuple[int, Watermark]] = deque()

    def heard(self, asked_at: int, head: Watermark) -> None:
        """A subscription far behind forgets the heartbeats in between, never the oldest: it has
        to get there first anyway."""
        if len(self._pending) == _MAX_PENDING:
            self._pending.pop()
        self._pending.append((asked_at, head))

    def reached_at(self, position: Watermark) -> int | None:
        """The last moment, in monotonic nanoseconds, at which `position` was all there was."""
        pending = self._pending
        # Nobody has had an event yet, and there is none: epochs do not matter then.
        while pending and (pending[0][1] <= position or pending[0][1].seq == position.seq == 0):
            self._reached_at = pending.popleft()[0]
        return self._reached_at
