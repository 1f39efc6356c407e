"""What the owner of streams stored: a hash of every event, its key and its size."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epicast.core import Buffer, EventBatch, EventKind
from epicast.evidence.files import LogBounds, LogFiles
from epicast.evidence.hashing import content_hashes
from epicast.evidence.schema import OWNER, EvidenceError, Facts, Kind

_FLUSH_BYTES = 1 << 20
_NOTHING = b""


class OwnerLog:
    """`flush` now and then; what was not is lost with the process."""

    def __init__(
        self,
        root: Path,
        facts: Facts,
        bounds: LogBounds | None = None,
        wall_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._files = LogFiles(root, facts, bounds)
        self._wall_clock_ns = wall_clock_ns
        self._rows: list[tuple[object, ...]] = []
        self._bytes = 0

    @property
    def problem(self) -> str:
        return self._files.problem

    def stored(self, batch: EventBatch) -> None:
        """A batch that follows what was stored before."""
        if batch.tombstones:
            raise EvidenceError(f"an owner stores events and not tombstones: {batch!r}")
        contents = content_hashes(batch).view(np.uint8).data
        keys, key_bytes, sizes = _columns(batch)
        gc = _NOTHING
        if not batch.only_data:
            chosen = np.flatnonzero(batch.kinds == EventKind.GC).tolist()
            payloads = batch.payloads()
            gc = msgspec.msgpack.encode([(batch.first + row, payloads[row]) for row in chosen])
        runs = np.array(batch.runs, dtype="<u8").tobytes()
        self._add(
            (Kind.EVENTS, batch.stream, batch.epoch, batch.first, batch.last,
             self._wall_clock_ns(), contents, keys, key_bytes, sizes, gc, runs),
            len(contents) + len(keys),
        )  # fmt: skip

    def dropped(self, stream: int, epoch: int, last: int) -> None:
        """Retention has taken everything up to `last`."""
        row = (Kind.DROPPED, stream, epoch, 1, last, self._wall_clock_ns(), *(_NOTHING,) * 6)
        self._add(row, 0)

    def _add(self, row: tuple[object, ...], size: int) -> None:
        self._rows.append(row)
        self._bytes += size
        if self._bytes >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            self._files.write(
                [
                    _binary(column) if field.type == pa.binary() else pa.array(column, field.type)
                    for column, field in zip(columns, OWNER, strict=True)
                ]
            )
            self._rows = []
            self._bytes = 0

    def close(self) -> None:
        self.flush()
        self._files.close()


def _columns(batch: EventBatch) -> tuple[Buffer, Buffer, Buffer]:
    """Keys one after the other, the lengths of keys, and of payloads."""
    data = np.frombuffer(batch.data, np.uint8)
    if batch.lengths is not None:
        key, row = batch.lengths.key, batch.lengths.row
        if key == row:
            keys: Buffer = batch.data
        else:
            keys = data.reshape(batch.rows, row)[:, :key].tobytes() if key else _NOTHING
        return keys, _number(key), _number(row - key)
    offsets = batch.offsets
    starts, middles, ends = offsets[:-1:2], offsets[1::2], offsets[2::2]
    # Bytes between the start and the end of a key, for all keys: +1 where one begins, -1 behind.
    inside: NDArray[np.int8] = np.zeros(len(data) + 1, dtype=np.int8)
    np.add.at(inside, starts, 1)
    np.add.at(inside, middles, -1)
    chosen = np.cumsum(inside[:-1], dtype=np.int8).astype(bool)
    return data[chosen].tobytes(), (middles - starts).tobytes(), (ends - middles).tobytes()


def _binary(values: Sequence[object]) -> pa.Array:
    """A column of buffers, each copied once."""
    ends = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum([len(value) for value in values], out=ends[1:])  # type: ignore[arg-type]
    whole = b"".join(values)  # type: ignore[arg-type]
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(whole)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little")
