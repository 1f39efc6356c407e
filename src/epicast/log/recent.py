"""The newest events of one stream, kept by a peer that has no history, for others who ask.

Batches are kept as they came, which costs next to nothing. Only once somebody asks for events do
they move into a history, which collects what the stream's policy says; as long as the code for that
is still being loaded, what was asked for is answered as it came. When there is no more room,
the older half of that is dropped, or all of it if nobody has asked since the last time.

Batches are views of the blocks they were received in. So what counts is the size of those blocks;
where a block is mostly something else, the batches are copied out of it once the next one begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from epicast.core import EventBatch, part_of
from epicast.log.config import MAX_KEY_BYTES, in_memory
from epicast.log.errors import LogError
from epicast.log.history import History
from epicast.log.policy import GcPolicy

_LEAST_BYTES = 64 << 10
_PARTS = 8
"""Segments of a full buffer: what is dropped is one of them."""
_APPENDED_AT_A_TIME = _LEAST_BYTES // _PARTS // 2


class _Block:
    """Consecutive batches that are views of one buffer."""

    __slots__ = ("batches", "owner", "pinned", "used")

    def __init__(self, owner: object, pinned: int) -> None:
        self.owner: object | None = owner
        self.pinned = pinned
        self.batches: deque[EventBatch] = deque()
        self.used = 0

    def close(self) -> int:
        """No more batches will be added; the bytes it keeps alive, at most twice what is used."""
        if self.pinned > 2 * self.used:
            self.batches = deque(batch.copied() for batch in self.batches)
            self.pinned = self.used
        self.owner = None
        return self.pinned


class FilteredBuffer:
    def __init__(
        self,
        stream: int,
        max_bytes: int,
        policy: GcPolicy | None = None,
        can_filter: Callable[[], bool] = lambda: True,
    ) -> None:
        self._stream = stream
        self._policy = policy or GcPolicy()
        self._can_filter = can_filter
        self._max_bytes = max(max_bytes, _LEAST_BYTES)
        self._epoch = 0
        self._last = 0
        self._blocks: deque[_Block] = deque()
        self._closed_bytes = 0
        """Of all blocks but the newest."""
        self._history: History | None = None
        self._was_read = False

    @property
    def first(self) -> int:
        """The oldest number held; 0 if there is none."""
        if self._history is not None:
            return self._history.start
        return self._blocks[0].batches[0].first if self._blocks else 0

    @property
    def last(self) -> int:
        """The newest number held; 0 if there is none."""
        return self._last

    @property
    def bytes(self) -> int:
        stored = self._history.stored_bytes if self._history is not None else 0
        return stored + self._closed_bytes + (self._blocks[-1].used if self._blocks else 0)

    def add(self, batch: EventBatch) -> None:
        """Keep a batch. One that does not continue what is there starts anew."""
        if batch.first != self._last + 1 or batch.epoch != self._epoch:
            self.clear()
            self._epoch = batch.epoch
        owner = batch.data.obj
        if not self._blocks or self._blocks[-1].owner is not owner:
            if self._blocks:
                self._closed_bytes += self._blocks[-1].close()
            self._blocks.append(_Block(owner, batch.pinned_bytes))
        block = self._blocks[-1]
        block.batches.append(batch)
        block.used += batch.wire_size()
        self._last = batch.last
        if self.bytes > self._max_bytes:
            self._shrink()

    def read(self, first: int, last: int, max_bytes: int) -> list[EventBatch]:
        """What is held of first..last, ascending: at least a batch if anything, then as many as
        fit, collected events as tombstones. What no batch covers is not here."""
        if not self._last or last < self.first or first > self._last:
            return []
        if self._history is None and not self._can_filter():
            held = (batch for block in self._blocks for batch in block.batches)
            return part_of(held, first, last, max_bytes)
        self._was_read = True
        history = self._filtered()
        if history is None:
            return []
        return history.read(max(first, history.start), max_bytes, min(last, history.end))

    def clear(self) -> None:
        self._blocks.clear()
        self._closed_bytes = 0
        self._history = None
        self._last = 0
        self._was_read = False

    def _filtered(self) -> History | None:
        """Everything, in a history; None, and nothing is left, if a batch is not fit for one."""
        try:
            if self._history is None:
                self._history = self._start_history()
            self._fill(self._history)
        except LogError:
            self.clear()
        self._blocks.clear()
        self._closed_bytes = 0
        return self._history

    def _start_history(self) -> History:
        config = in_memory(
            segment_bytes=self._max_bytes // _PARTS,
            retain_bytes=self._max_bytes // 2,
            compact_lag_segments=1,
            max_key_bytes=MAX_KEY_BYTES,
        )
        history = History.in_memory(self._stream, policy=self._policy, config=config)
        history.reset(self._epoch, self.first)
        return history

    def _fill(self, history: History) -> None:
        part: list[EventBatch] = []
        size = 0
        for block in self._blocks:
            for batch in block.batches:
                part.append(batch)
                size += batch.wire_size()
                if size >= _APPENDED_AT_A_TIME:  # or all of it would be one segment
                    history.append_many(part)
                    part, size = [], 0
        history.append_many(part)

    def _shrink(self) -> None:
        if self._was_read:
            self._was_read = False
            history = self._filtered()
            if history is not None:
                history.retain(0)
            return
        self._history = None
        while self.bytes > self._max_bytes and len(self._blocks) > 1:
            self._closed_bytes -= self._blocks.popleft().pinned
        block = self._blocks[-1]
        while block.used > self._max_bytes and len(block.batches) > 1:
            block.used -= block.batches.popleft().wire_size()
