"""Events to load a geoplex with: keys drawn anew for every batch, and what becomes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from epicast.core import EventBatch
from epicast.log.kernels.access import address_of, put_word, word_at
from epicast.log.kernels.compiling import compiled, inlined

ROWS = 1_000
KEY_BYTES = 10
KEYS = 100_000
_DRAWN_AT_ONCE = 64 * ROWS
_NO_SEQS = np.empty(0, dtype=np.uint64)
_NO_OFFSETS = np.empty(0, dtype=np.uint32)


class DrawnStream:
    """Batch after batch of 1,000 events that are a 10-byte key and nothing else.

    The same seed draws the same events, so that whoever checks need not be told them.
    """

    def __init__(self, stream: int, seed: int) -> None:
        self.stream = stream
        self._rng = np.random.default_rng(seed)
        keys = self._rng.integers(0, 256, (KEYS, KEY_BYTES), dtype=np.uint8)
        self.keys: NDArray[np.void] = keys.view(f"V{KEY_BYTES}").ravel()
        self._key_bytes = keys.ravel()
        self._drawn_ahead = np.empty(0, dtype=np.int32)
        self.drawn = 0

    def indices(self, rows: int = ROWS) -> NDArray[np.int32]:
        """Which keys come next: drawn many at a time, so that `rows` does not change them."""
        self.drawn += rows
        if len(self._drawn_ahead) < rows:
            more = self._rng.integers(0, KEYS, _DRAWN_AT_ONCE, dtype=np.int32)
            self._drawn_ahead = np.concatenate([self._drawn_ahead, more])
        found, self._drawn_ahead = self._drawn_ahead[:rows], self._drawn_ahead[rows:]
        return found

    def batch(self, rows: int = ROWS) -> EventBatch:
        """The next events."""
        first = self.drawn + 1
        content = bytearray(rows * KEY_BYTES)
        _copy_keys(self._key_bytes, self.indices(rows), np.frombuffer(content, np.uint8))
        return EventBatch.even(self.stream, first, content, KEY_BYTES, 0)


@compiled
def _digest(first: Any, seqs: Any, offsets: Any, width: Any, data: Any) -> Any:
    """Without `seqs` they count up from `first`, without `offsets` all rows have `width` bytes."""
    total = uint64(0)
    memory = address_of(data)
    rows = len(offsets) // 2 if len(offsets) else len(data) // width
    at = np.int64(0)
    for row in range(rows):
        seq = uint64(seqs[row]) if len(seqs) else uint64(first + row)
        value = seq * uint64(0x9E3779B97F4A7C15)
        end = np.int64(offsets[2 * row + 2]) if len(offsets) else at + width
        while end - at >= 8:
            value = _mixed(value ^ word_at(memory + at))
            at += 8
        while at < end:
            value = (value ^ uint64(data[at])) * uint64(0x100000001B3)
            at += 1
        total += _mixed(value)
    return total


@inlined
def _mixed(value: Any) -> Any:
    value *= uint64(0xFF51AFD7ED558CCD)
    return value ^ (value >> uint64(29))


@compiled
def _copy_keys(keys: Any, chosen: Any, out: Any) -> None:
    source, target = address_of(keys), address_of(out)
    for row in range(len(chosen)):
        key = source + KEY_BYTES * np.int64(chosen[row])
        put_word(target, word_at(key))
        put_word(target + KEY_BYTES - 8, word_at(key + KEY_BYTES - 8))  # the two overlap
        target += KEY_BYTES


def digest(batch: EventBatch) -> int:
    """A sum over the rows of a hash of number, key and payload: their order does not matter."""
    data = np.frombuffer(batch.data, np.uint8)
    data.flags.writeable = False  # compiled for one type only
    seqs = batch.seqs if batch.tombstones else _NO_SEQS
    if batch.lengths is not None and batch.lengths.row:
        return int(_digest(batch.first, seqs, _NO_OFFSETS, batch.lengths.row, data))
    return int(_digest(batch.first, seqs, batch.offsets, 0, data))


class Expected:
    """What subscribers of a stream must have seen, drawn again from its seed."""

    def __init__(self, stream: int, seed: int, events: int) -> None:
        source = DrawnStream(stream, seed)
        self.events = events
        self.digests = np.zeros(events // ROWS, dtype=np.uint64)
        self._last = np.zeros(KEYS, dtype=np.uint64)
        self._keys = source.keys
        for number in range(events // ROWS):
            batch = source.batch()
            self.digests[number] = digest(batch)
        again = DrawnStream(stream, seed)
        for number in range(events // ROWS):
            seqs = np.arange(1, ROWS + 1, dtype=np.uint64) + np.uint64(number * ROWS)
            self._last[again.indices()] = seqs  # where a key comes twice, the later one stays

    @property
    def digest(self) -> int:
        """Of everything."""
        return int(self.digests.sum(dtype=np.uint64))

    def live(self) -> dict[int, bytes]:
        """What `filter` leaves of the history: the last event of each key."""
        return {
            int(seq): bytes(self._keys[key]) for key, seq in enumerate(self._last.tolist()) if seq
        }
