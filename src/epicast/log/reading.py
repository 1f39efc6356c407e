"""What a history answers when it is read: live events, with everything else as tombstones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch
from epicast.log.layout import BATCH_HEADER_BYTES, EPOCH_AT, FRAME, FRAME_BYTES, RUN_BYTES
from epicast.log.live import LiveSet
from epicast.log.merging import ROW_BYTES, merged
from epicast.log.publishers import Publishers, StoredRun, runs_in, runs_within
from epicast.log.rows import Rows, Scanner, as_bytes
from epicast.log.segment import Segment

_FEW_ROWS = 256
"""Stored batches with fewer rows are joined with their neighbours instead of handed out as is."""
_LEAST_READ = 4096
_FIXED_BYTES = BATCH_HEADER_BYTES + 12
"""What a batch takes besides rows and runs: a time, if they share it, and the last offset."""

Find = Callable[[int], Segment]
"""The segment that covers a number."""


class Reader:
    def __init__(
        self,
        stream: int,
        live: LiveSet,
        publishers: Publishers,
        find: Find,
        window_bytes: int,
        *,
        names_publishers: bool = False,
    ) -> None:
        self._stream = stream
        self._live = live
        self._publishers = publishers
        self._find = find
        self._window_bytes = window_bytes
        self._names_publishers = names_publishers
        self._scanner = Scanner()

    def read(
        self, epoch: int, first: int, end: int, max_bytes: int, taken: int
    ) -> list[EventBatch]:
        """Batches that cover `first` and what follows, without gaps and with copied bytes. Up to
        `taken` it is known what is live; behind that everything is."""
        found: list[EventBatch] = []
        room = max_bytes
        cursor = _Cursor(self._find)
        while first <= end and (not found or room > _FIXED_BYTES + ROW_BYTES):
            if first <= taken:
                batch = self._live_part(cursor, epoch, first, min(end, taken), room)
            else:
                cursor.seek(first, min(max(room, _LEAST_READ), self._window_bytes))
                batch = cursor.batch(epoch)
                batch = batch.slice(max(first, batch.first), min(end, batch.last))
            batch = _cut(batch, room)
            size = batch.wire_size()
            if found and size > room:
                break
            found.append(batch)
            room -= size
            first = batch.last + 1
        return found

    def _live_part(
        self, cursor: _Cursor, epoch: int, first: int, end: int, room: int
    ) -> EventBatch:
        """A batch that begins at `first`, with what is live."""
        live = self._live.next(first, end)
        if self._names_publishers:
            live = first  # what is dead may have been published by somebody
        if live is None:
            return self._put_together(first, end, epoch, _NO_ROWS)
        cursor.seek(live, min(max(room, _LEAST_READ), self._window_bytes))
        batch = self._as_stored(cursor, epoch, first, live) or self._merged(
            cursor, epoch, first, end, room
        )
        return batch if batch.last <= end else batch.slice(batch.first, end)

    def stored(self, epoch: int, first: int, last: int) -> Iterator[EventBatch]:
        """Batches as they were appended, collected events included, where compaction has left it
        at that."""
        cursor = _Cursor(self._find)
        while first <= last:
            cursor.seek(first, self._window_bytes)
            batch = cursor.batch(epoch)
            yield batch.slice(max(first, batch.first), min(last, batch.last))
            first = batch.last + 1

    def measured(self, scanner: Scanner, first: int, last: int) -> Iterator[Rows]:
        """The stored batches from the one that begins at `first` on, as far as they end at `last`
        or before; with rows yet to be loaded."""
        cursor = _Cursor(self._find)
        while first <= last:
            cursor.seek(first, self._window_bytes)
            rows = scanner.measure(cursor.view, cursor.at, len(cursor.view))
            table = rows.record_table()
            whole = int(np.searchsorted(table[:, 3], last, side="right"))
            if whole < len(table):
                if not whole:
                    return
                rows = scanner.measure(cursor.view, cursor.at, int(table[whole, 0]))
            first = rows.last + 1
            yield rows

    def scan(self, first: int, last: int) -> Iterator[Rows]:
        """The stored rows between two numbers, and some beside them, wherever any is live."""
        while first <= last:
            live = self._live.next(first, last)
            if live is None:
                return
            segment = self._find(live)
            for _, view in segment.windows(segment.position_before(live), self._window_bytes):
                rows = self._scanner.scan(view, 0, len(view))
                covered = rows.last
                yield rows
                if covered >= last:
                    return
            first = segment.last + 1

    def _as_stored(self, cursor: _Cursor, epoch: int, first: int, live: int) -> EventBatch | None:
        """The stored batch, or the end of it, if that is all live and not too small to bother."""
        if live != first:
            return None
        stored = cursor.batch(epoch)
        if stored.rows < _FEW_ROWS:
            return None
        part = stored.slice(max(first, stored.first), stored.last)
        return part if self._live.count(part.first, part.last) == part.rows else None

    def _merged(self, cursor: _Cursor, epoch: int, first: int, end: int, room: int) -> EventBatch:
        records = self._scanner.list_records(cursor.view, cursor.at, len(cursor.view))
        last = min(records.last, end)
        limit = max(1, room // ROW_BYTES)
        wanted = self._live.members(max(first, records.first), last, limit)
        if len(wanted) == limit:
            last = wanted.item(-1)
        named = runs_in(records) if self._names_publishers else None
        rows = self._scanner.pick(records, wanted)
        sizes = rows.key_bytes + rows.sizes + ROW_BYTES
        fitting = _rows_within(np.cumsum(sizes), room - _FIXED_BYTES)
        if fitting < rows.count:
            last = rows.seqs.item(fitting) - 1
            rows.shorten(fitting)
        elif named is None:
            following = self._live.next(last + 1, end)
            last = end if following is None else following - 1
        return self._put_together(first, last, epoch, rows, named)

    def _put_together(
        self, first: int, last: int, epoch: int, rows: Rows, named: list[StoredRun] | None = None
    ) -> EventBatch:
        if named is None:
            runs = self._publishers.runs_between(first, last)
        else:
            runs = runs_within(named, first, last)
        pieces = merged(self._stream, epoch, first, last, rows, runs)
        return EventBatch.decode(b"".join(pieces))


class _Cursor:
    """A stretch of a segment, and the record in it that covers the number sought last."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._segment: Segment | None = None
        self.view = memoryview(b"")
        self.at = 0

    def seek(self, seq: int, window_bytes: int) -> None:
        from epicast.log.kernels.rows import locate

        if self._segment is not None and seq <= self._segment.last:
            self.at = locate(as_bytes(self.view), self.at, seq)
            if self.at < len(self.view):
                return
        self._segment = segment = self._find(seq)
        position = segment.position_before(seq)
        for _, view in segment.windows(position, segment.interval + window_bytes):
            self.view = view
            self.at = locate(as_bytes(view), 0, seq)
            if self.at < len(view):
                return
        raise AssertionError(f"{segment.name} ends at {segment.last} but {seq} is not in it")

    def batch(self, epoch: int) -> EventBatch:
        """The record as a batch of its own, in the epoch the history is in now."""
        _, length = FRAME.unpack_from(self.view, self.at)
        encoded = bytearray(self.view[self.at + FRAME_BYTES : self.at + FRAME_BYTES + length])
        encoded[EPOCH_AT : EPOCH_AT + 4] = epoch.to_bytes(4, "little")
        return EventBatch.decode(encoded)


def _cut(batch: EventBatch, room: int) -> EventBatch:
    """The beginning of a batch that fits, at least one row of it."""
    if batch.wire_size() <= room or batch.rows < 2:
        return batch
    columns = batch.wire_size() - batch.payload_bytes - BATCH_HEADER_BYTES
    per_row = -(-columns // batch.rows)
    ends = batch.offsets[2::2].astype(np.int64) + per_row * np.arange(1, batch.rows + 1)
    fitting = _rows_within(ends, room - _FIXED_BYTES - RUN_BYTES * len(batch.runs))
    if fitting >= batch.rows:
        return batch
    return batch.slice(batch.first, batch.seqs.item(fitting) - 1)


def _rows_within(ends: NDArray[np.int64], room: int) -> int:
    """How many rows fit if each ends there, but at least one."""
    return max(1, int(np.searchsorted(ends, room, side="right")))


_NO_ROWS = Rows.empty()
