"""Rows of a workload as events of a stream, column-wise.

A key is eight bytes, little-endian; a payload is as many zeros as the row says. A deletion is a GC
event that makes everything before it with that key obsolete; like every GC event published through
the client it has no key itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch, EventKind
from epicast.core.batch_layout import pieces_of
from epicast.log.predicate import gc_payload, key_in
from epicast.pipeline.workloads.chunks import Columns, Op

KEY_BYTES = 8


def encode_rows(stream: int, first: int, columns: Columns) -> EventBatch:
    rows = len(columns.key)
    keys = columns.key.astype("<i8", copy=False).view(np.uint8).reshape(rows, KEY_BYTES)
    deleted = columns.op == Op.DELETE
    size = columns.size.item(0)
    if not deleted.any() and (columns.size == size).all():
        alike = np.zeros((rows, KEY_BYTES + size), dtype=np.uint8)
        alike[:, :KEY_BYTES] = keys
        return EventBatch.even(stream, first, alike.tobytes(), KEY_BYTES, size)
    pattern = _deletion_pattern()
    lengths = np.empty((rows, 2), dtype=np.int64)
    lengths[:, 0] = np.where(deleted, 0, KEY_BYTES)
    lengths[:, 1] = np.where(deleted, len(pattern), columns.size)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths.reshape(-1))])
    data = np.zeros(int(offsets[-1]), dtype=np.uint8)
    starts = offsets[:-1:2]
    _put(data, starts[~deleted], keys[~deleted])
    payloads = np.repeat(pattern[np.newaxis], int(deleted.sum()), axis=0)
    payloads[:, -KEY_BYTES:] = keys[deleted]
    _put(data, starts[deleted], payloads)
    kinds = np.where(deleted, int(EventKind.GC), int(EventKind.DATA)).astype(np.uint8)
    pieces = pieces_of(
        stream, 0, first, first + rows - 1, rows, (), np.zeros(1, dtype="<i8"), None,
        offsets.astype(np.uint32), kinds if deleted.any() else None, data.tobytes(),
    )  # fmt: skip
    return EventBatch.decode(b"".join(pieces))


def _put(data: NDArray[np.uint8], starts: NDArray[np.int64], values: NDArray[np.uint8]) -> None:
    data[starts[:, np.newaxis] + np.arange(values.shape[1])] = values


def _deletion_pattern() -> NDArray[np.uint8]:
    """The payload of a GC event about one key, which ends with that key."""
    return np.frombuffer(gc_payload(key_in([bytes(KEY_BYTES)])), dtype=np.uint8)
