"""Events to load a geoplex with: keys drawn anew for every batch, and what becomes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from epicast.core import EventBatch
from epicast.log.kernels.access import address_of, put_word, word_at
from epicast.log.kernels.compiling import compiled, inlined
from epicast.log.layout import BATCH_HEADER, BATCH_VERSION, ONE_TIME

ROWS = 1_000
KEY_BYTES = 10
KEYS = 100_000


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
        self._templates: dict[int, tuple[bytes, int]] = {}
        self.drawn = 0

    def indices(self, rows: int = ROWS) -> NDArray[np.int32]:
        """Which keys come next."""
        self.drawn += rows
        return self._rng.integers(0, KEYS, rows, dtype=np.int32)

    def batch(self, groups: int = 1) -> EventBatch:
        """The next `groups` times 1,000 events."""
        rows, first = groups * ROWS, self.drawn + 1
        template, content_at = self._templates.get(rows) or self._template(rows)
        whole = bytearray(template)
        BATCH_HEADER.pack_into(
            whole, 0, BATCH_VERSION, ONE_TIME, 0, rows, self.stream, 0, 0, first, first + rows - 1,
            0, rows * KEY_BYTES,
        )  # fmt: skip
        content = np.frombuffer(whole, np.uint8, rows * KEY_BYTES, content_at)
        for at in range(0, rows, ROWS):  # as if one by one, so that grouping changes nothing
            part = content[at * KEY_BYTES : (at + ROWS) * KEY_BYTES]
            _copy_keys(self._key_bytes, self.indices(), part)
        return EventBatch.decode(whole)

    def _template(self, rows: int) -> tuple[bytes, int]:
        ends = np.arange(1, rows + 1, dtype="<u4") * KEY_BYTES
        offsets = np.concatenate([np.zeros(1, "<u4"), np.repeat(ends, 2)]).tobytes()
        before = bytes(BATCH_HEADER.size + 8) + offsets
        self._templates[rows] = (before + bytes(rows * KEY_BYTES), len(before))
        return self._templates[rows]


@compiled
def _digest(seqs: Any, offsets: Any, data: Any) -> Any:
    total = uint64(0)
    memory = address_of(data)
    for row in range(len(seqs)):
        value = uint64(seqs[row]) * uint64(0x9E3779B97F4A7C15)
        at, end = np.int64(offsets[2 * row]), np.int64(offsets[2 * row + 2])
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
    return int(_digest(batch.seqs, batch.offsets, data))


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
