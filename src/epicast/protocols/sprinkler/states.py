"""What a proxy knows of one stream."""

from __future__ import annotations

from collections import deque

from epicast.core import EventBatch
from epicast.protocols.sprinkler.messages import Counter, StreamInfo
from epicast.protocols.sprinkler.recent import RecentBatches

_JOINED_BYTES = 256 << 10


class StreamState:
    """`end` is as far as everything is stable here, and may be shown; `taken` as far as it was
    handed to the store."""

    __slots__ = (
        "_numbered",
        "_unstable",
        "end",
        "epoch",
        "id",
        "info",
        "recent",
        "taken",
        "unstable_bytes",
    )

    def __init__(self, info: StreamInfo, epoch: int, end: int, recent_bytes: int) -> None:
        self.id = info.id
        self.info = info
        self.epoch = epoch
        self.end = end
        self.taken = end
        self.recent = RecentBatches(recent_bytes)
        self.unstable_bytes = 0
        self._numbered: list[EventBatch] = []
        self._unstable: deque[EventBatch] = deque()

    @property
    def counter(self) -> Counter:
        return Counter(self.id, self.epoch, self.end)

    def number(self, batch: EventBatch) -> None:
        """A publication was given the numbers behind `taken`."""
        self.taken = batch.last
        self._numbered.append(batch)

    def take_numbered(self) -> list[EventBatch]:
        """What was numbered since the last time, joined to fewer and larger batches: to store."""
        joined: list[EventBatch] = []
        group: list[EventBatch] = []
        size = 0
        for batch in self._numbered:
            if group and size + batch.wire_size() > _JOINED_BYTES:
                joined.append(EventBatch.joined(group))
                group, size = [], 0
            group.append(batch)
            size += batch.wire_size()
        joined.append(EventBatch.joined(group))
        self._numbered = []
        for batch in joined:
            self.take(batch)
        return joined

    def take(self, batch: EventBatch) -> None:
        """The batch behind `taken` was handed to the store."""
        self.taken = batch.last
        self._unstable.append(batch)
        self.unstable_bytes += batch.wire_size()

    def stabilise(self, seq: int) -> list[EventBatch]:
        """Everything up to `seq` is stored: what may be shown now."""
        shown: list[EventBatch] = []
        unstable = self._unstable
        while unstable and unstable[0].last <= seq:
            batch = unstable.popleft()
            self.unstable_bytes -= batch.wire_size()
            self.recent.add(batch)
            shown.append(batch)
        if shown:
            self.end = shown[-1].last
        return shown

    def fail(self, first: int) -> None:
        """Nothing from `first` on was stored."""
        unstable = self._unstable
        while unstable and unstable[-1].first >= first:
            self.unstable_bytes -= unstable.pop().wire_size()
        self.taken = unstable[-1].last if unstable else self.end

    def restart(self, epoch: int) -> None:
        """A new epoch begins: everything of the old one is void."""
        self.epoch = epoch
        self.end = self.taken = 0
        self.recent.clear()
        self._unstable.clear()
        self.unstable_bytes = 0
