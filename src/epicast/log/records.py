"""Batches as records of a segment: a checksum and a length in front, zeros behind."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from crc32c import crc32c

from epicast.core import Buffer, EventBatch
from epicast.log.layout import FRAME, FRAME_BYTES, padded
from epicast.log.rows import as_bytes

_PADDING = tuple(bytes(count) for count in range(8))


def framed(encoded: Iterable[Buffer]) -> list[Buffer]:
    """One record; `encoded` are the buffers of a batch."""
    pieces = list(encoded)
    length = sum(map(len, pieces))
    if padded(length) > length:
        pieces.append(_PADDING[padded(length) - length])
    checksum = crc32c(length.to_bytes(4, "little"))
    for piece in pieces:
        checksum = crc32c(piece, checksum)
    return [FRAME.pack(checksum, length), *pieces]


def framed_batches(batches: Iterable[EventBatch]) -> bytes:
    return b"".join([piece for batch in batches for piece in framed(batch.encode())])


def is_sound(view: memoryview, at: int, end: int) -> bool:
    """Whether the record that lies there is what was written."""
    checksum, _ = FRAME.unpack_from(view, at)
    return bool(crc32c(view[at + 4 : end]) == checksum)


def record_ends(view: memoryview) -> list[int]:
    """Where the records of a stretch of a segment end; the last may be cut off, and not count."""
    from epicast.log.kernels.rows import find_records

    ends = np.empty(len(view) // (FRAME_BYTES + 8) + 1, dtype=np.int64)
    count = find_records(as_bytes(view), 0, ends)
    return list(ends[:count].tolist())
