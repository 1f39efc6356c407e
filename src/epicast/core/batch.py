"""A run of events of one stream, stored column by column over one buffer.

A batch covers the sequence numbers first..last, at least one. A number that is covered but has no
row is a tombstone. Slicing, forwarding and decoding copy no event: columns are numpy views of the
buffer the batch came in, and a slice is encoded as a short header plus views of its part of each
column.

Layout (little endian): header, publisher runs, owner times, sequence numbers (only if rows are
missing), offsets, kinds (only if one is not DATA), data. `offsets` interleaves where each key and
each payload starts, 2 * rows + 1 numbers counted from where the *original* batch's data started,
so that a slice needs no renumbering; the header says what to subtract. If all keys are as long as
each other and all payloads too, their two lengths stand in place of the offsets. The times column
has a single entry if all events share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from struct import error as LayoutError

import numpy as np
from numpy.typing import NDArray

from epicast.core.batch_layout import (
    EVEN,
    FEW,
    HEADER,
    HEADER_BYTES,
    KINDS,
    KNOWN_FLAGS,
    LENGTHS,
    LENGTHS_BYTES,
    MAX_DATA_BYTES,
    MAX_ROWS,
    ONE_TIME,
    RUN_BYTES,
    SPARSE,
    VERSION,
    Buffer,
    Lengths,
    Run,
    assemble_few,
    check_coverage,
    check_sequence_numbers,
    cut,
    decode_offsets,
    decode_runs,
    even_bounds,
    joined_offsets,
    joined_runs,
    pieces_of,
    slice_runs,
)
from epicast.core.errors import BatchError
from epicast.core.event import Event, EventKind


class EventBatch:
    """Immutable. Make one with `build`, `decode` or `slice`."""

    __slots__ = ("_data", "_encoded", "_kinds", "_offsets", "_runs", "_seqs", "_size", "_times",
                 "epoch", "first", "last", "rows", "stream")  # fmt: skip

    stream: int
    epoch: int
    first: int
    last: int
    rows: int
    _runs: tuple[Run, ...] | NDArray[np.uint64]
    _times: NDArray[np.int64]
    _seqs: NDArray[np.uint64] | None
    _offsets: NDArray[np.uint32] | Lengths
    _kinds: NDArray[np.uint8] | None
    _data: memoryview
    _encoded: list[Buffer] | None
    _size: int

    @classmethod
    def build(
        cls,
        stream: int,
        first: int,
        payloads: Sequence[bytes],
        *,
        keys: Sequence[bytes] | None = None,
        time: int | Sequence[int] = 0,
        kinds: Sequence[int] | None = None,
        seqs: Sequence[int] | None = None,
        last: int | None = None,
        epoch: int = 0,
        runs: Iterable[Run] = (),
    ) -> EventBatch:
        """Assemble a batch from per-event lists. With `seqs`, numbers left out are tombstones."""
        try:
            if (
                0 < len(payloads) <= FEW
                and kinds is None
                and seqs is None
                and last is None
                and isinstance(time, int)
                and (keys is None or len(keys) == len(payloads))
            ):
                return cls.decode(assemble_few(stream, epoch, first, payloads, keys, time, runs))
            pieces = cls._assemble(
                stream, first, payloads, keys, time, kinds, seqs, last, epoch, tuple(runs)
            )
        except (LayoutError, OverflowError) as error:
            raise BatchError(f"a number does not fit its column: {error}") from error
        return cls.decode(b"".join(pieces))

    @classmethod
    def even(
        cls, stream: int, first: int, data: Buffer, key: int, payload: int, *, time: int = 0
    ) -> EventBatch:
        """A batch over the bytes of events that are all alike: for each, a key of `key` bytes and
        a payload of `payload` bytes. Nothing is copied."""
        rows, rest = divmod(len(data), key + payload)
        if rest or not rows:
            raise BatchError(f"{len(data)} bytes are no events of {key} and {payload} bytes")
        batch = cls.__new__(cls)
        batch.stream, batch.epoch, batch.first, batch.last = stream, 0, first, first + rows - 1
        batch.rows = rows
        batch._runs = ()
        batch._times = np.array([time], dtype="<i8")
        batch._seqs = batch._kinds = None
        batch._offsets = Lengths(key, payload)
        batch._data = memoryview(data)
        batch._encoded = None
        batch._size = batch._measured()
        return batch

    @staticmethod
    def _assemble(
        stream: int,
        first: int,
        payloads: Sequence[bytes],
        keys: Sequence[bytes] | None,
        time: int | Sequence[int],
        kinds: Sequence[int] | None,
        seqs: Sequence[int] | None,
        last: int | None,
        epoch: int,
        runs: tuple[Run, ...],
    ) -> list[Buffer]:
        rows = len(payloads)
        if rows > MAX_ROWS:
            raise BatchError(f"{rows} events in one batch; split it, the limit is {MAX_ROWS}")
        lengths = np.zeros(2 * rows, dtype=np.int64)
        lengths[1::2] = np.fromiter(map(len, payloads), dtype=np.int64, count=rows)
        if keys is None:
            data = b"".join(payloads)
        else:
            if len(keys) != rows:
                raise BatchError(f"{len(keys)} keys for {rows} payloads")
            lengths[0::2] = np.fromiter(map(len, keys), dtype=np.int64, count=rows)
            data = b"".join(chain.from_iterable(zip(keys, payloads, strict=True)))
        if len(data) > MAX_DATA_BYTES:
            raise BatchError(f"{len(data)} bytes in one batch; split it")
        pairs = lengths.reshape(rows, 2)
        offsets: NDArray[np.uint32] | Lengths
        if rows and (pairs == pairs[0]).all():
            offsets = Lengths(*pairs[0].tolist())
        else:
            offsets = np.zeros(2 * rows + 1, dtype=np.uint32)
            offsets[1:] = np.cumsum(lengths)
        times = np.asarray(time, dtype="<i8")
        if not times.ndim:
            times = times.reshape(1)
        elif len(times) != rows:
            raise BatchError(f"{len(times)} times for {rows} payloads")
        if kinds is not None and len(kinds) != rows:
            raise BatchError(f"{len(kinds)} kinds for {rows} payloads")
        sparse = None if seqs is None else np.asarray(seqs, dtype="<u8")
        if sparse is not None and len(sparse) != rows:
            raise BatchError(f"{len(sparse)} sequence numbers for {rows} payloads")
        if last is None:
            if not rows:
                raise BatchError("a batch without events: say which numbers it buries with `last`")
            last = first + rows - 1 if sparse is None else int(sparse[-1])
        elif sparse is None and last - first + 1 != rows:
            raise BatchError(f"{rows} events for {first}..{last}; name those there are with `seqs`")
        return pieces_of(
            stream, epoch, first, last, rows, runs, times, sparse, offsets,
            None if kinds is None else np.asarray(kinds, dtype=np.uint8), data,
        )  # fmt: skip

    @classmethod
    def decode(cls, buffer: Buffer, *, trusted: bool = False) -> EventBatch:
        """View `buffer` as a batch; raises `BatchError` on anything that is not one. What is within
        the columns of one that is `trusted`, made right here, is not looked at."""
        view = memoryview(buffer)
        size = len(view)
        if size < HEADER_BYTES:
            raise BatchError(f"{size} bytes are too few for a batch header")
        (version, flags, reserved, rows, stream, epoch, run_count, first, last, base,
         data_bytes) = HEADER.unpack_from(view)  # fmt: skip
        if version != VERSION:
            raise BatchError(f"batch layout version {version}; this one reads {VERSION}")
        if flags & ~KNOWN_FLAGS or reserved:
            raise BatchError(f"batch flags {flags:#x}, {reserved:#x}; this one knows none of them")
        check_coverage(rows, first, last, sparse=bool(flags & SPARSE))
        time_rows = 1 if flags & ONE_TIME else rows
        times_at = HEADER_BYTES + RUN_BYTES * run_count
        seqs_at = times_at + 8 * time_rows
        offsets_at = seqs_at + (8 * rows if flags & SPARSE else 0)
        kinds_at = offsets_at + (LENGTHS_BYTES if flags & EVEN else 4 * (2 * rows + 1))
        data_at = kinds_at + (rows if flags & KINDS else 0)
        if data_at + data_bytes != size:
            raise BatchError(f"columns need {data_at + data_bytes} bytes, the batch has {size}")
        batch = cls.__new__(cls)
        batch.stream, batch.epoch, batch.first, batch.last = stream, epoch, first, last
        batch.rows = rows
        batch._runs = decode_runs(view, run_count, last - first + 1, trusted) if run_count else ()
        batch._times = np.frombuffer(view, "<i8", time_rows, times_at)
        batch._seqs = None
        if flags & SPARSE:
            batch._seqs = np.frombuffer(view, "<u8", rows, seqs_at)
            check_sequence_numbers(batch._seqs, first, last)
        if flags & EVEN:
            lengths = batch._offsets = Lengths._make(LENGTHS.unpack_from(view, offsets_at))
            if base or not rows or rows * lengths.row != data_bytes:
                raise BatchError(f"{rows} rows of {lengths.row} bytes are not {data_bytes} bytes")
        else:
            batch._offsets = decode_offsets(view, rows, offsets_at, base, data_bytes, trusted)
        batch._kinds = np.frombuffer(view, "u1", rows, kinds_at) if flags & KINDS else None
        batch._data = view[data_at:]
        batch._encoded = [view]
        batch._size = size
        return batch

    def slice(self, first: int, last: int) -> EventBatch:
        """The part covering first..last, which must lie inside this batch."""
        if not self.first <= first <= last <= self.last:
            raise BatchError(f"{first}..{last} is not inside {self.first}..{self.last}")
        if first == self.first and last == self.last:
            return self
        if self._seqs is None:
            low, high = first - self.first, last - self.first + 1
        else:
            # Bounds of the column's own type: plain integers would be compared as floats.
            low = int(np.searchsorted(self._seqs, np.uint64(first)))
            high = int(np.searchsorted(self._seqs, np.uint64(last), side="right"))
        part = EventBatch.__new__(EventBatch)
        part.stream, part.epoch, part.first, part.last = self.stream, self.epoch, first, last
        part.rows = high - low
        part._runs = slice_runs(self.runs, first - self.first, last - self.first + 1)
        part._times = self._times if len(self._times) == 1 else self._times[low:high]
        part._seqs = None if self._seqs is None else self._seqs[low:high]
        offsets = self._offsets
        if isinstance(offsets, Lengths):
            part._offsets = offsets if part.rows else np.zeros(1, dtype=np.uint32)
            begin, end = offsets.row * low, offsets.row * high
        else:
            part._offsets = bounds = offsets[2 * low : 2 * high + 1]
            begin, end = bounds.item(0) - offsets.item(0), bounds.item(-1) - offsets.item(0)
        part._kinds = None if self._kinds is None else self._kinds[low:high]
        part._data = self._data[begin:end]
        part._encoded = None
        part._size = part._measured()
        return part

    def renumbered(
        self, stream: int, epoch: int, first: int, time: int, runs: tuple[Run, ...]
    ) -> EventBatch:
        """The same events at another place, all published at `time`; nothing is copied."""
        batch = EventBatch.__new__(EventBatch)
        batch.stream, batch.epoch = stream, epoch
        batch.first, batch.last = first, first + self.last - self.first
        batch.rows = self.rows
        batch._runs = runs
        batch._times = np.array([time], dtype="<i8")
        batch._seqs = None
        if self._seqs is not None:
            batch._seqs = self._seqs + np.uint64(first) - np.uint64(self.first)
        batch._offsets = self._offsets
        batch._kinds = self._kinds
        batch._data = self._data
        batch._encoded = None
        batch._size = batch._measured()
        return batch

    @classmethod
    def joined(cls, batches: Sequence[EventBatch]) -> EventBatch:
        """One batch of several that follow each other and cover no tombstones, in memory of its
        own. Per batch, not per event, is what work costs: many small ones are better joined."""
        head = batches[0]
        if len(batches) == 1:
            return head
        whole = cls._put_together(batches)
        expected = head.first
        for batch in batches:
            if (batch.stream, batch.epoch, batch.first) != (head.stream, head.epoch, expected):
                raise BatchError(f"{batch!r} does not follow {head.stream}:{expected - 1}")
            expected = batch.last + 1
        whole.stream, whole.epoch = head.stream, head.epoch
        whole.first, whole.last = head.first, expected - 1
        times = [batch._times for batch in batches]
        one_time = all(len(t) == 1 and t.item(0) == times[0].item(0) for t in times)
        whole._times = times[0] if one_time else np.concatenate([b.times for b in batches])
        whole._runs = joined_runs(batch.runs for batch in batches)
        whole._size = whole._measured()
        return whole

    @classmethod
    def gathered(cls, stream: int, first: int, batches: Sequence[EventBatch]) -> EventBatch:
        """The events of several batches as one, numbered anew from `first` and without a time."""
        if len(batches) == 1:
            return batches[0].renumbered(stream, 0, first, 0, ())
        whole = cls._put_together(batches)
        whole.stream, whole.epoch = stream, 0
        whole.first, whole.last = first, first + whole.rows - 1
        whole._times = np.zeros(1, dtype="<i8")
        whole._runs = ()
        whole._size = whole._measured()
        return whole

    @classmethod
    def _put_together(cls, batches: Sequence[EventBatch]) -> EventBatch:
        """Rows, kinds and data of batches; what else there is to a batch is still to be said."""
        whole = cls.__new__(cls)
        data = b"".join([batch._data for batch in batches])
        whole.rows = sum(batch.rows for batch in batches)
        if whole.rows > MAX_ROWS or len(data) > MAX_DATA_BYTES:
            raise BatchError(f"{whole.rows} events, {len(data)} bytes: too much for one batch")
        for batch in batches:
            if batch._seqs is not None:
                raise BatchError(f"{batch!r} has tombstones and cannot be joined with others")
        with_kinds = any(batch._kinds is not None for batch in batches)
        whole._seqs = None
        whole._offsets = joined_offsets([(batch.rows, batch._offsets) for batch in batches])
        whole._kinds = np.concatenate([b.kinds for b in batches]) if with_kinds else None
        whole._data = memoryview(data)
        whole._encoded = None
        return whole

    def copied(self) -> EventBatch:
        """The same batch in memory of its own: it pins nothing else."""
        return EventBatch.decode(b"".join(self.encode()))

    def encode(self) -> Sequence[Buffer]:
        """The encoded batch as buffers to be written one after the other; nothing is copied."""
        if self._encoded is None:
            self._encoded = pieces_of(
                self.stream, self.epoch, self.first, self.last, self.rows, self.runs, self._times,
                self._seqs, self._offsets, self._kinds, self._data,
            )  # fmt: skip
        return self._encoded

    def wire_size(self) -> int:
        return self._size

    def _measured(self) -> int:
        size = HEADER_BYTES + RUN_BYTES * len(self.runs) + len(self._data)
        offsets = self._offsets
        size += LENGTHS_BYTES if isinstance(offsets, Lengths) else offsets.nbytes
        for column in (self._times, self._seqs, self._kinds):
            if column is not None:
                size += column.nbytes
        return size

    @property
    def payload_bytes(self) -> int:
        """Bytes of keys and payloads."""
        return len(self._data)

    @property
    def pinned_bytes(self) -> int:
        """Bytes of the buffer this batch keeps alive; a small slice can pin a large one."""
        owner = self._data.obj
        if isinstance(owner, np.ndarray):
            return owner.nbytes
        return len(owner) if isinstance(owner, (bytes, bytearray)) else self._data.nbytes

    @property
    def tombstones(self) -> int:
        """How many covered numbers have no row."""
        return self.last - self.first + 1 - self.rows

    @property
    def runs(self) -> tuple[Run, ...]:
        """Who published what; empty, or adding up to all numbers covered."""
        if not isinstance(self._runs, tuple):  # relays never ask: tuples are made for who does
            self._runs = tuple(map(Run._make, self._runs.tolist()))
        return self._runs

    @property
    def seqs(self) -> NDArray[np.uint64]:
        if self._seqs is not None:
            return self._seqs
        return np.arange(self.first, self.last + 1, dtype=np.uint64)

    @property
    def times(self) -> NDArray[np.int64]:
        if len(self._times) == self.rows:
            return self._times
        return np.broadcast_to(self._times, (self.rows,))

    @property
    def kinds(self) -> NDArray[np.uint8]:
        if self._kinds is not None:
            return self._kinds
        return np.broadcast_to(np.uint8(EventKind.DATA), (self.rows,))

    @property
    def only_data(self) -> bool:
        """Whether all rows are DATA, as far as that is known without looking at each."""
        return self._kinds is None

    @property
    def offsets(self) -> NDArray[np.uint32]:
        """Where keys (even entries) and payloads (odd entries) start, relative to `data`."""
        offsets = self._offsets
        if isinstance(offsets, Lengths):
            return even_bounds(offsets, self.rows)
        base = offsets[0]
        return offsets - base if base else offsets

    @property
    def lengths(self) -> Lengths | None:
        """Those that all keys and all payloads have, if they are known to be alike."""
        return self._offsets if isinstance(self._offsets, Lengths) else None

    @property
    def longest(self) -> Lengths:
        """The lengths of the longest key and the longest payload."""
        offsets = self._offsets
        if isinstance(offsets, Lengths):
            return offsets
        if not self.rows:
            return Lengths(0, 0)
        lengths = offsets[1:] - offsets[:-1]
        return Lengths(int(np.maximum.reduce(lengths[0::2])), int(np.maximum.reduce(lengths[1::2])))

    @property
    def data(self) -> memoryview:
        return self._data

    def keys(self) -> list[bytes]:
        starts, ends, _ = self._bounds()
        return [b""] * self.rows if starts == ends else cut(bytes(self._data), starts, ends)

    def payloads(self) -> list[bytes]:
        _, starts, ends = self._bounds()
        return cut(bytes(self._data), starts, ends)

    def events(self) -> list[Event]:
        """One `Event` per row. For the subscriber's edge: between edges, stay with columns."""
        data = bytes(self._data)
        starts, middles, ends = self._bounds()
        kinds: Iterable[int] = repeat(0) if self._kinds is None else self._kinds.tolist()
        return list(
            map(
                Event,
                repeat(self.stream),
                self.seqs.tolist(),
                repeat(b"") if starts == middles else cut(data, starts, middles),
                cut(data, middles, ends),
                self.times.tolist(),
                kinds,
            )
        )

    def _bounds(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Where each key starts, where each payload does, and where that ends."""
        bounds = self.offsets.tolist()
        return bounds[:-1:2], bounds[1::2], bounds[2::2]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventBatch):
            return NotImplemented
        return (self.stream, self.epoch, self.first, self.last, self.runs) == (
            other.stream, other.epoch, other.first, other.last, other.runs
        ) and self.events() == other.events()  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<EventBatch {self.stream}:{self.first}..{self.last} rows={self.rows}>"


def part_of(
    batches: Iterable[EventBatch], first: int, last: int, max_bytes: int
) -> list[EventBatch]:
    """What ascending batches hold of first..last: at least one if any, then as many as fit."""
    found: list[EventBatch] = []
    for batch in batches:
        if batch.last < first:
            continue
        if batch.first > last:
            break
        if batch.first < first or batch.last > last:
            batch = batch.slice(max(first, batch.first), min(last, batch.last))
        max_bytes -= batch.wire_size()
        if found and max_bytes < 0:
            break
        found.append(batch)
    return found
