"""How a batch lies in memory: constants, and the pieces it is put together from.

`EventBatch` describes the layout; `docs/wire.md` and `docs/log-format.md` rest on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import add
from struct import Struct as Layout
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast.core.errors import BatchError
from epicast.core.ranges import MAX_SEQ

Buffer = bytes | bytearray | memoryview

HEADER = Layout("<BBHIQIIQQII")
HEADER_BYTES = HEADER.size
RUN = Layout("<QQQ")
RUN_BYTES = RUN.size
VERSION = 1
LENGTHS = Layout("<II")
LENGTHS_BYTES = LENGTHS.size
SPARSE, KINDS, ONE_TIME, EVEN = 1, 2, 4, 8
KNOWN_FLAGS = SPARSE | KINDS | ONE_TIME | EVEN
MAX_ROWS = 1 << 24
FEW = 16
"""Up to so many values plain Python is faster than numpy."""
MAX_DATA_BYTES = (1 << 32) - 1


class Lengths(NamedTuple):
    """Of every key and of every payload of a batch in which all are alike."""

    key: int
    payload: int

    @property
    def row(self) -> int:
        return self.key + self.payload


class Run(NamedTuple):
    """`count` consecutive sequence numbers published by one publisher, numbered from `first`."""

    publisher: int
    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls on a run


def assemble_few(
    stream: int,
    epoch: int,
    first: int,
    payloads: Sequence[bytes],
    keys: Sequence[bytes] | None,
    time: int,
    runs: Iterable[Run],
) -> bytes:
    """What `_assemble` does, for a few plain events: without numpy, several times as fast."""
    parts = [RUN.pack(*run) for run in runs]
    data = b"".join(chain.from_iterable(zip(keys, payloads, strict=True)) if keys else payloads)
    rows = len(payloads)
    flags = ONE_TIME
    lengths = (len(keys[0]) if keys else 0, len(payloads[0]))
    if rows * sum(lengths) == len(data) and _are_alike(payloads) and _are_alike(keys or ()):
        flags |= EVEN
        columns = _FEW_EVEN_COLUMNS.pack(time, *lengths)
    else:
        offsets, at = [0], 0
        for index, payload in enumerate(payloads):
            at += len(keys[index]) if keys else 0
            offsets.append(at)
            at += len(payload)
            offsets.append(at)
        columns = _FEW_COLUMNS[rows].pack(time, *offsets)
    header = HEADER.pack(
        VERSION, flags, 0, rows, stream, epoch, len(parts), first, first + rows - 1, 0, len(data)
    )
    return b"".join([header, *parts, columns, data])


def _are_alike(values: Sequence[bytes]) -> bool:
    return len(values) < 2 or len(set(map(len, values))) == 1


_FEW_COLUMNS = [Layout(f"<q{2 * rows + 1}I") for rows in range(FEW + 1)]
"""Of a batch with one time: that, and the offsets."""
_FEW_EVEN_COLUMNS = Layout("<qII")
"""The same if all keys and all payloads are alike: the time and their lengths."""


def pieces_of(
    stream: int,
    epoch: int,
    first: int,
    last: int,
    rows: int,
    runs: tuple[Run, ...],
    times: NDArray[np.int64],
    seqs: NDArray[np.uint64] | None,
    offsets: NDArray[np.uint32] | Lengths,
    kinds: NDArray[np.uint8] | None,
    data: Buffer,
) -> list[Buffer]:
    flags = ONE_TIME if len(times) == 1 else 0
    base = 0
    if isinstance(offsets, Lengths):
        flags |= EVEN
    else:
        base = offsets.item(0)
    flags |= SPARSE if seqs is not None else 0
    flags |= KINDS if kinds is not None else 0
    header = HEADER.pack(
        VERSION, flags, 0, rows, stream, epoch, len(runs), first, last, base, len(data)
    )
    for run in runs:
        header += RUN.pack(*run)
    if len(times) == 1:
        header += times.tobytes()  # small parts in one buffer: each costs as much as a large one
    pieces: list[Buffer] = [header]
    if len(times) != 1:
        pieces.append(_raw(times))
    if seqs is not None:
        pieces.append(_raw(seqs))
    if not isinstance(offsets, Lengths):
        pieces.append(_raw(offsets))
    elif len(pieces) == 1:
        pieces[0] = header + LENGTHS.pack(*offsets)
    else:
        pieces.append(LENGTHS.pack(*offsets))
    if kinds is not None:
        pieces.append(_raw(kinds))
    pieces.append(data)
    return pieces


def _raw(column: NDArray[Any]) -> Buffer:
    return column.data.cast("B") if len(column) else b""


def cut(data: bytes, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
    return [data[start:end] for start, end in zip(starts, ends, strict=True)]


def even_bounds(lengths: Lengths, rows: int) -> NDArray[np.uint32]:
    """The offsets of rows that are all alike."""
    width = lengths.row
    bounds = np.empty(2 * rows + 1, dtype=np.uint32)
    bounds[0::2] = np.arange(0, width * rows + 1, width) if width else 0
    bounds[1::2] = bounds[:-1:2] + np.uint32(lengths.key)
    return bounds


def ascend(offsets: NDArray[np.uint32]) -> bool:
    if len(offsets) <= FEW:  # numpy costs more than it saves
        values = offsets.tolist()
        return bool(values == sorted(values))
    return not np.count_nonzero(offsets[1:] < offsets[:-1])


def joined_offsets(
    parts: Sequence[tuple[int, NDArray[np.uint32] | Lengths]],
) -> NDArray[np.uint32] | Lengths:
    """Those of consecutive batches, of each of which the rows and offsets are given."""
    head = parts[0][1]
    if isinstance(head, Lengths) and all(
        isinstance(offsets, Lengths) and offsets == head for _, offsets in parts
    ):
        return head
    joined = np.empty(2 * sum(rows for rows, _ in parts) + 1, dtype="<u4")
    at = base = 0
    for rows, offsets in parts:
        bounds = even_bounds(offsets, rows) if isinstance(offsets, Lengths) else offsets
        upto = at + 2 * rows
        start = bounds.item(0)
        np.add(bounds[:-1], np.uint32((base - start) % 2**32), out=joined[at:upto])
        at, base = upto, base + bounds.item(-1) - start
    joined[at] = base
    return joined


def joined_runs(parts: Iterable[tuple[Run, ...]]) -> tuple[Run, ...]:
    """Those of consecutive batches, with runs that go on in the next one in one piece."""
    runs: list[Run] = []
    for part in parts:
        for run in part:
            if runs and (runs[-1].publisher, runs[-1].first + runs[-1].count) == run[:2]:
                run = Run(run.publisher, runs[-1].first, runs.pop().count + run.count)
            runs.append(run)
    return tuple(runs)


def decode_offsets(
    view: memoryview, rows: int, at: int, base: int, data_bytes: int, trusted: bool
) -> NDArray[np.uint32]:
    bounds = np.frombuffer(view, "<u4", 2 * rows + 1, at)
    fit = bounds.item(0) == base and bounds.item(-1) - base == data_bytes
    if not fit or not (trusted or ascend(bounds)):
        raise BatchError("key and payload offsets do not ascend through the data")
    return bounds


def decode_runs(
    view: memoryview, count: int, covered: int, trusted: bool
) -> tuple[Run, ...] | NDArray[np.uint64]:
    if count <= FEW:
        few = tuple(
            map(Run._make, RUN.iter_unpack(view[HEADER_BYTES : HEADER_BYTES + count * RUN_BYTES]))
        )
        _check_runs([run.first for run in few], [run.count for run in few], covered)
        return few
    runs = np.frombuffer(view, "<u8", 3 * count, HEADER_BYTES).reshape(count, 3)
    if not trusted:
        _check_runs(runs[:, 1].tolist(), runs[:, 2].tolist(), covered)
    return runs


def _check_runs(firsts: Sequence[int], counts: Sequence[int], covered: int) -> None:
    if sum(counts) != covered or not all(counts):
        raise BatchError(f"publisher runs do not add up to the {covered} numbers covered")
    end = max(map(add, firsts, counts))
    if end > 2 * MAX_SEQ:  # the last number of a publication is a sum of two
        raise BatchError(f"a publisher's numbers go up to {end - 1}, beyond {2 * MAX_SEQ}")


def slice_runs(runs: tuple[Run, ...], low: int, high: int) -> tuple[Run, ...]:
    """The runs of positions low..high-1 of the numbers the runs cover."""
    kept = []
    start = 0
    for publisher, first, count in runs:
        begin, end = max(low, start), min(high, start + count)
        if begin < end:
            kept.append(Run(publisher, first + begin - start, end - begin))
        start += count
    return tuple(kept)


def check_coverage(rows: int, first: int, last: int, *, sparse: bool) -> None:
    if not 1 <= first <= last <= MAX_SEQ or rows > last - first + 1:
        raise BatchError(f"a batch of {rows} rows cannot cover {first}..{last}")
    if not sparse and rows != last - first + 1:
        raise BatchError(f"{rows} rows without numbers cannot cover {first}..{last}")


def check_sequence_numbers(seqs: NDArray[np.uint64], first: int, last: int) -> None:
    if len(seqs) and (
        seqs.item(0) < first or seqs.item(-1) > last or np.count_nonzero(seqs[1:] <= seqs[:-1])
    ):
        raise BatchError(f"sequence numbers do not ascend inside {first}..{last}")
