"""What the owner of streams stored: of every event its key, its size, and a hash of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch, EventKind
from epicast.evidence.columns import Pile, binaries, numbers
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
        self._rows: list[tuple[Any, ...]] = []
        self._contents = Pile(np.uint64)
        self._keys = Pile(np.uint8)

    @property
    def problem(self) -> str:
        return self._files.problem

    def stored(self, batch: EventBatch) -> None:
        """A batch that follows what was stored before."""
        if batch.tombstones:
            raise EvidenceError(f"an owner stores events and not tombstones: {batch!r}")
        if self._keys.bytes + self._contents.bytes >= _FLUSH_BYTES:
            self.flush()
        # Of events that are a key and nothing else, such as invalidations, the hash says no more.
        hashed = 0 if _only_keys(batch) else batch.rows
        contents = self._contents.room(hashed)
        if hashed:
            content_hashes(batch, contents)
        key_bytes, sizes = _put_keys(batch, self._keys)
        gc = _NOTHING
        if not batch.only_data:
            chosen = np.flatnonzero(batch.kinds == EventKind.GC).tolist()
            payloads = batch.payloads()
            gc = msgspec.msgpack.encode([(batch.first + row, payloads[row]) for row in chosen])
        runs = np.array(batch.runs, dtype="<u8").tobytes()
        self._rows.append(
            (Kind.EVENTS, batch.stream, batch.epoch, batch.first, batch.last,
             self._wall_clock_ns(), key_bytes, sizes, gc, runs)
        )  # fmt: skip

    def left(self, batch: EventBatch, most: int) -> int:
        """What there is of a batch that events are missing from; the end of it, if that would be
        more than `most` pieces. How many it took."""
        if not batch.rows:
            return 0
        seqs = batch.seqs
        begins = np.append(0, np.flatnonzero(np.diff(seqs) != 1) + 1)
        ends = np.append(begins[1:], len(seqs)) - 1
        chosen = slice(max(0, len(begins) - most), None)
        for first, last in zip(seqs[begins[chosen]], seqs[ends[chosen]], strict=True):
            self.stored(batch.slice(int(first), int(last)))
        return min(most, len(begins))

    def dropped(self, stream: int, epoch: int, last: int) -> None:
        """Retention has taken everything up to `last`."""
        self._contents.room(0)
        self._keys.room(0)
        row = (Kind.DROPPED, stream, epoch, 1, last, self._wall_clock_ns(), *(_NOTHING,) * 4)
        self._rows.append(row)

    def flush(self) -> None:
        if self._rows:
            *places, key_bytes, sizes, gc, runs = zip(*self._rows, strict=True)
            self._files.write(
                [
                    *(numbers(c, field.type) for c, field in zip(places, OWNER, strict=False)),
                    self._contents.column(),
                    self._keys.column(),
                    *map(binaries, (key_bytes, sizes, gc, runs)),
                ]
            )
            self._rows = []
            self._contents.clear()
            self._keys.clear()

    def close(self, *, knows_all: bool = True) -> None:
        """`knows_all`: nothing was stored until now that is not in some log of the owner."""
        self.flush()
        self._files.close(self._wall_clock_ns() if knows_all else 0)


def _only_keys(batch: EventBatch) -> bool:
    lengths = batch.lengths
    return lengths is not None and lengths.key == lengths.row and batch.only_data


def _put_keys(batch: EventBatch, pile: Pile) -> tuple[bytes, bytes]:
    """Keys go to the pile, one after the other; the lengths of keys, and of payloads."""
    data = np.frombuffer(batch.data, np.uint8)
    if batch.lengths is not None:
        key, row = batch.lengths.key, batch.lengths.row
        keys = data if key == row else data.reshape(batch.rows, row)[:, :key].ravel()
        pile.room(len(keys))[:] = keys
        return _number(key), _number(row - key)
    offsets = batch.offsets
    starts, middles, ends = offsets[:-1:2], offsets[1::2], offsets[2::2]
    # Bytes between the start and the end of a key, for all keys: +1 where one begins, -1 behind.
    inside: NDArray[np.int8] = np.zeros(len(data) + 1, dtype=np.int8)
    np.add.at(inside, starts, 1)
    np.add.at(inside, middles, -1)
    keys = data[np.cumsum(inside[:-1], dtype=np.int8).astype(bool)]
    pile.room(len(keys))[:] = keys
    return (middles - starts).tobytes(), (ends - middles).tobytes()


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little")
