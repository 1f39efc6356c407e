"""From batches of events to rows of bronze, a column at a time.

Keys and payloads alternate in the bytes of a batch. Seen as one binary column of twice the rows,
picking every other entry separates them; an entry that is picked nowhere is null, as it must be for
a tombstone. Where nothing has to be separated, the bytes stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epicast import EventBatch, Reset
from epicast.pipeline.lake.schema import KINDS, RESET, TOMBSTONE, bronze_schema

_TIME = pa.timestamp("us", tz="UTC")
_KIND_NAMES = pa.array(KINDS)
_TOMBSTONE = KINDS.index(TOMBSTONE)
_RESET = KINDS.index(RESET)
_FEW = 4096
"""Batches with fewer rows are joined with their neighbours: what is done per batch adds up."""
_FULL_BYTES = 4 << 20
_ROW_BYTES = 32
"""What a row takes besides its key and its payload, about."""
NAMES = ["epoch", "seq", "last", "kind", "time", "key", "payload"]


def rows_of(batch: EventBatch | Reset) -> pa.RecordBatch:
    """The columns of a file of bronze; the kind is a dictionary, which is quick to store."""
    if isinstance(batch, Reset):
        return _row_of_reset(batch)
    if batch.tombstones:
        return _with_tombstones(batch)
    numbers = pa.array(np.arange(batch.first, batch.last + 1, dtype=np.int64))
    keys, payloads = _keys_and_payloads(batch)
    return _together(
        np.full(batch.rows, batch.epoch, dtype=np.int64),
        numbers,
        numbers,
        batch.kinds.astype(np.int8),
        pa.array(batch.times // 1000).view(_TIME),
        keys,
        payloads,
    )


def rows_for_spark(batch: EventBatch | Reset, stream: str) -> pa.RecordBatch:
    """With the stream's name, and nothing that Spark's reader of Arrow does not know."""
    rows = rows_of(batch)
    columns = [pa.repeat(pa.scalar(stream), rows.num_rows), *rows.columns]
    columns[4] = columns[4].cast(pa.string())
    return pa.RecordBatch.from_arrays(columns, schema=bronze_schema())


def joined(batches: Iterable[EventBatch | Reset]) -> Iterator[EventBatch | Reset]:
    """The same events in batches that are worth the work there is per batch."""
    waiting: list[EventBatch] = []
    size = 0
    for batch in batches:
        small = _if_small(batch)
        if waiting and (small is None or size >= _FULL_BYTES or not _follows(small, waiting[-1])):
            yield EventBatch.joined(waiting)
            waiting, size = [], 0
        if small is None:
            yield batch
        else:
            waiting.append(small)
            size += small.wire_size() + _ROW_BYTES * small.rows
    if waiting:
        yield EventBatch.joined(waiting)


def _if_small(batch: EventBatch | Reset) -> EventBatch | None:
    if isinstance(batch, Reset) or batch.tombstones or batch.rows >= _FEW:
        return None
    return batch


def _follows(batch: EventBatch, newest: EventBatch) -> bool:
    return (batch.epoch, batch.first) == (newest.epoch, newest.last + 1)


def _with_tombstones(batch: EventBatch) -> pa.RecordBatch:
    """A gap in the numbers becomes a row of its own, in its place."""
    numbers = batch.seqs.astype(np.int64)
    edges = np.concatenate(([batch.first - 1], numbers, [batch.last + 1]))
    gaps = np.flatnonzero(edges[1:] - edges[:-1] > 1)
    total = batch.rows + len(gaps)
    places = gaps + np.arange(len(gaps))
    buried = np.zeros(total, dtype=bool)
    buried[places] = True
    events = np.flatnonzero(~buried)

    seqs = np.empty(total, dtype=np.int64)
    seqs[events] = numbers
    seqs[places] = edges[gaps] + 1
    lasts = seqs.copy()
    lasts[places] = edges[gaps + 1] - 1
    kinds = np.full(total, _TOMBSTONE, dtype=np.int8)
    kinds[events] = batch.kinds
    times = np.zeros(total, dtype=np.int64)
    times[events] = batch.times // 1000
    entries = np.zeros(total, dtype=np.int64)
    entries[events] = 2 * np.arange(batch.rows)
    both = _alternating(batch)
    return _together(
        np.full(total, batch.epoch, dtype=np.int64),
        seqs,
        lasts,
        kinds,
        pa.array(times, mask=buried).view(_TIME),
        both.take(pa.array(entries, mask=buried)),
        both.take(pa.array(entries + 1, mask=buried)),
    )


def _row_of_reset(reset: Reset) -> pa.RecordBatch:
    place = np.array([reset.watermark.seq], dtype=np.int64)
    return _together(
        np.array([reset.watermark.epoch], dtype=np.int64),
        place,
        place,
        np.array([_RESET], dtype=np.int8),
        pa.nulls(1, _TIME),
        pa.nulls(1, pa.binary()),
        pa.nulls(1, pa.binary()),
    )


def _together(
    epochs: NDArray[np.int64],
    seqs: NDArray[np.int64] | pa.Array,
    lasts: NDArray[np.int64] | pa.Array,
    kinds: NDArray[np.int8],
    times: pa.Array,
    keys: pa.Array,
    payloads: pa.Array,
) -> pa.RecordBatch:
    named = pa.DictionaryArray.from_arrays(pa.array(kinds), _KIND_NAMES)
    return pa.RecordBatch.from_arrays(
        [pa.array(epochs), pa.array(seqs), pa.array(lasts), named, times, keys, payloads], NAMES
    )


def _keys_and_payloads(batch: EventBatch) -> tuple[pa.Array, pa.Array]:
    lengths = batch.lengths
    if lengths is not None and not (lengths.key and lengths.payload):
        return _alike(batch, lengths.key), _alike(batch, lengths.payload)
    both = _alternating(batch)
    entries = 2 * np.arange(batch.rows)
    return both.take(pa.array(entries)), both.take(pa.array(entries + 1))


def _alike(batch: EventBatch, length: int) -> pa.Array:
    """All the bytes there are, cut into equal pieces; or none of them."""
    bounds = np.arange(batch.rows + 1, dtype=np.int64) * length
    return _binary(bounds, batch.data if length else b"")


def _alternating(batch: EventBatch) -> pa.Array:
    return _binary(batch.offsets, batch.data)


def _binary(bounds: NDArray[np.int64] | NDArray[np.uint32], data: memoryview | bytes) -> pa.Array:
    """Copies nothing but the bounds. Arrow counts up to 2 GiB with 32 bits, a batch to 4."""
    if len(data) < 2**31:
        kind, offsets = pa.binary(), bounds.astype(np.int32)
    else:
        kind, offsets = pa.large_binary(), bounds.astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(bounds) - 1, buffers)
