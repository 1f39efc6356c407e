"""Batches as records of a segment: a checksum and a length in front, zeros behind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from crc32c import crc32c

from epicast.core import Buffer, EventBatch
from epicast.log.layout import BATCH_HEADER_BYTES, FRAME, FRAME_BYTES
from epicast.log.rows import as_bytes

_PADDING = tuple(bytes(count) for count in range(8))


def pieces_of(pieces: Sequence[Buffer], *, checked: bool = True) -> list[Buffer]:
    """The buffers of one record; `pieces` are those of a batch. Memory needs no checksums."""
    length = sum(map(len, pieces))
    padding = _PADDING[-length & 7]
    checksum = 0
    if checked:
        checksum = crc32c(length.to_bytes(4, "little"))
        for piece in pieces:
            checksum = crc32c(piece, checksum)
        checksum = crc32c(padding, checksum)
    return [FRAME.pack(checksum, length), *pieces, padding]


def framed(pieces: Sequence[Buffer], *, checked: bool = True) -> bytes:
    return b"".join(pieces_of(pieces, checked=checked))


def framed_batches(batches: Sequence[EventBatch], *, checked: bool = True) -> bytes:
    return b"".join(framed_pieces(batches, checked=checked))


def framed_pieces(batches: Sequence[EventBatch], *, checked: bool = True) -> list[Buffer]:
    """The buffers of several records."""
    if len(batches) == 1:
        return pieces_of(batches[0].encode(), checked=checked)
    found: list[Buffer] = []
    for batch in batches:
        found += pieces_of(batch.encode(), checked=checked)
    return found


def is_sound(view: memoryview, at: int, end: int) -> bool:
    """Whether the record that lies there is what was written."""
    checksum, _ = FRAME.unpack_from(view, at)
    return bool(crc32c(view[at + 4 : end]) == checksum)


def has_sound_record(view: memoryview) -> bool:
    """Whether a record that was written as it is lies anywhere in a stretch of a segment, which
    begins where a record or a header does."""
    lengths = np.frombuffer(view, dtype="<u4", count=len(view) // 8 * 2)[1::2].astype(np.int64)
    starts = 8 * np.arange(len(lengths))
    ends = starts + FRAME_BYTES + (lengths + 7) // 8 * 8
    plausible = (lengths >= BATCH_HEADER_BYTES) & (ends <= len(view))
    return any(
        is_sound(view, at, end)
        for at, end in zip(starts[plausible].tolist(), ends[plausible].tolist(), strict=True)
    )


def record_ends(view: memoryview) -> list[int]:
    """Where the records of a stretch of a segment end; the last may be cut off, and not count."""
    from epicast.log.kernels.rows import find_records

    ends = np.empty(len(view) // (FRAME_BYTES + 8) + 1, dtype=np.int64)
    count = find_records(as_bytes(view), 0, ends)
    return list(ends[:count].tolist())
