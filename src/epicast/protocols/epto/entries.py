"""A publication as an entry of a ball.

Its bytes begin with the lengths of key and payload that all its events have, or, if they differ,
with 2**32 - 1, anything, and the two lengths of each; then follow the keys and payloads in turn.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch
from epicast.protocols.notifications import unpinned

_HEAD = struct.Struct("<qqqqB")
ENTRY_BYTES = _HEAD.size
"""Of an entry in the columns of a ball, besides its content."""
_LENGTHS = struct.Struct("<II")
_UNEVEN = (1 << 32) - 1
MAX_SOURCE = 2**64


def columns_of(time: int, source: int, batch: EventBatch) -> bytes:
    """A ball of this one entry, as its publisher makes it."""
    lengths = batch.lengths
    if lengths is not None:
        header = _LENGTHS.pack(*lengths)
    else:
        offsets = batch.offsets
        header = _LENGTHS.pack(_UNEVEN, 0) + (offsets[1:] - offsets[:-1]).astype("<u4").tobytes()
    data = bytes(batch.data)
    extent = batch.rows << 32 | len(header) + len(data)
    return _HEAD.pack(time, signed(source), batch.first, extent, 0) + header + data


def signed(source: int) -> int:
    """A node id as it stands in columns."""
    return source - MAX_SOURCE if source >= MAX_SOURCE >> 1 else source


def by_source(batch: EventBatch) -> Iterator[EventBatch]:
    """What was delivered, in order, as batches of one publisher each under its own numbers. What
    an application has not read yet is counted by what it keeps in memory: none keeps the rest."""
    if len(batch.runs) == 1:
        run = batch.runs[0]
        yield batch.renumbered(run.publisher, 0, run.first, batch.times.item(0), ())
        return
    first, times = batch.first, batch.times
    for run in batch.runs:
        part = batch.slice(first, first + run.count - 1)
        time = times.item(first - batch.first)
        yield unpinned(part.renumbered(run.publisher, 0, run.first, time, ()))
        first += run.count


def entry_overhead(batch: EventBatch) -> int:
    """Bytes of an entry besides its keys and payloads."""
    return _HEAD.size + 8 + (0 if batch.lengths is not None else 8 * batch.rows)


def gaps_of(found: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Source, first and last number of each."""
    return [(source % MAX_SOURCE, first, last) for source, first, last in found.tolist()]
