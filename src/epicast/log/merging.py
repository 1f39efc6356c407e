"""Rows of several stored batches as one new batch, whose gaps stand for everything collected."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast.core import Buffer, Run
from epicast.log.layout import (
    BATCH_HEADER,
    BATCH_VERSION,
    KINDS,
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
    offsets = np.zeros(2 * count + 1, dtype=np.uint32)
    size = int((rows.key_bytes + rows.sizes).sum())
    data = np.empty(size, dtype=np.uint8)
    gather(rows.buffer, rows.key_at, rows.key_bytes, rows.sizes, offsets, data)
    times = rows.times if count else _NO_TIMES
    flags = 0
    columns: list[NDArray[np.generic]] = []
    if (times == times[0]).all():
        flags |= ONE_TIME
        times = times[:1]
    columns.append(times)
    if count != last - first + 1:
        flags |= SPARSE
        columns.append(rows.seqs)
    columns.append(offsets)
    if rows.kinds.any():
        flags |= KINDS
        columns.append(rows.kinds)
    header = BATCH_HEADER.pack(
        BATCH_VERSION, flags, 0, count, stream, epoch, len(runs), first, last, 0, size
    )
    pieces: list[Buffer] = [header]
    if runs:
        pieces.append(np.array(runs, dtype="<u8").tobytes())
    pieces.extend(column.tobytes() for column in columns)
    pieces.append(data.data)
    return pieces
