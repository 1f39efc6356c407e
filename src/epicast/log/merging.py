"""Rows of several stored batches as one new batch, whose gaps stand for everything collected."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast.core import Buffer, Run
from epicast.log.layout import (
    BATCH_HEADER,
    BATCH_VERSION,
    EVEN,
    KINDS,
    LENGTHS,
    ONE_TIME,
    SPARSE,
)
from epicast.log.rows import Rows

ROW_BYTES = 24
"""Bytes a row takes in a merged batch besides its key and payload: number, time, two offsets."""
_NO_TIMES = np.zeros(1, dtype=np.int64)


def merged(
    stream: int,
    epoch: int,
    first: int,
    last: int,
    rows: Rows,
    runs: tuple[Run, ...],
) -> list[Buffer]:
    """An encoded batch of the rows that covers first..last."""
    from epicast.log.kernels.rows import gather

    count = rows.count
    even = _are_alike(rows.key_bytes) and _are_alike(rows.sizes)
    offsets = np.zeros(0 if even else 2 * count + 1, dtype=np.uint32)
    size = int(rows.key_bytes.sum() + rows.sizes.sum())
    data = np.empty(size, dtype=np.uint8)
    gather(rows.buffer, rows.key_at, rows.key_bytes, rows.sizes, offsets, data)
    times = rows.times if count else _NO_TIMES
    flags = 0
    columns: list[Buffer] = []
    if (times == times[0]).all():
        flags |= ONE_TIME
        times = times[:1]
    columns.append(times.tobytes())
    if count != last - first + 1:
        flags |= SPARSE
        columns.append(rows.seqs.tobytes())
    if even:
        flags |= EVEN
        columns.append(LENGTHS.pack(rows.key_bytes[0], rows.sizes[0]))
    else:
        columns.append(offsets.tobytes())
    if rows.kinds.any():
        flags |= KINDS
        columns.append(rows.kinds.tobytes())
    header = BATCH_HEADER.pack(
        BATCH_VERSION, flags, 0, count, stream, epoch, len(runs), first, last, 0, size
    )
    pieces: list[Buffer] = [header]
    if runs:
        pieces.append(np.array(runs, dtype="<u8").tobytes())
    return [*pieces, *columns, data.data]


def _are_alike(lengths: NDArray[np.int64]) -> bool:
    return len(lengths) > 0 and bool((lengths == lengths[0]).all())
