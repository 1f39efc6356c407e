"""What stands under a key: the table behind `latest_per_key` and exact-key predicates."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epicast.log.rows import Rows

_FIRST_CAPACITY = 1 << 10
_FIRST_ARENA = 1 << 12
_LINE_BYTES = 64
MOST_ROWS = 1 << 15
"""Rows handled at a time: room is made for all of them to bring a new key."""


class KeyTable:
    """Key bytes to a positive number. Grows by doubling; forgets only when it must grow.

    `still_wanted` says of an array of values which of them still mean something: the others are
    dropped, with their keys, before the table is made larger.
    """

    def __init__(
        self, still_wanted: Callable[[NDArray[np.uint64]], NDArray[np.bool_]] | None = None
    ) -> None:
        from epicast.log.kernels import keys

        self._kernels: Any = keys
        self._still_wanted = still_wanted
        self._width: int = keys.SLOT_WORDS
        self._inline: int = keys.INLINE_BYTES
        self._spare = 0
        """New keys there surely is room for, without a look at how many came."""
        self._slots = free_slots(self._width * _FIRST_CAPACITY)
        self._arena = np.zeros(_FIRST_ARENA, dtype=np.uint8)
        self._used = np.zeros(2, dtype=np.int64)
        # Unknown to publishers, so that they cannot choose keys that all hash alike.
        self._seed = np.uint64(int.from_bytes(os.urandom(8), "little"))
        self._notes = np.empty(keys.NOTE_WORDS * keys.BLOCK, dtype=np.uint64)
        self._previous = np.empty(0, dtype=np.uint64)

    def __len__(self) -> int:
        return int(self._used[0])

    @property
    def memory_bytes(self) -> int:
        return self._slots.nbytes + self._arena.nbytes

    @property
    def columns(self) -> tuple[Any, ...]:
        """What kernels work on; good until room is made."""
        return self._slots, self._arena, self._used, self._seed

    def exchange(self, rows: Rows, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Put the values under the keys of the rows; what stood there before, 0 for nothing.

        The answer is overwritten by the next call.
        """
        count = rows.count
        if len(self._previous) < count:
            self._previous = np.empty(count, dtype=np.uint64)
        for low in range(0, count, MOST_ROWS):
            high = min(low + MOST_ROWS, count)
            key_at, key_bytes = rows.key_at[low:high], rows.key_bytes[low:high]
            self.make_room(high - low, rows.longest_key)
            self._kernels.exchange(
                rows.buffer, key_at, key_bytes, values[low:high], self._previous[low:high],
                self._notes, self._slots, self._arena, self._used, self._seed,
            )  # fmt: skip
        return self._previous[:count]

    def find(self, rows: Rows) -> NDArray[np.uint64]:
        """What stands under the keys of the rows, 0 for nothing."""
        values = np.empty(rows.count, dtype=np.uint64)
        self._kernels.find(
            rows.buffer, rows.key_at[: rows.count], rows.key_bytes[: rows.count], values,
            self._slots, self._arena, self._seed,
        )  # fmt: skip
        return values

    def get(self, keys: Sequence[bytes]) -> NDArray[np.uint64]:
        return self.find(Rows.of_keys(keys))

    def put(self, key: bytes, value: int) -> int:
        """What stood under the key before."""
        return int(self.exchange(Rows.of_keys([key]), np.array([value], dtype=np.uint64))[0])

    def replace(self, by: NDArray[np.int64]) -> None:
        """Put by[v] wherever v stands."""
        self._slots[0 :: self._width] = by[self._slots[0 :: self._width]]

    def make_room(self, rows: int, longest: int) -> None:
        """For so many rows to bring new keys, none longer than `longest`."""
        self._spare -= rows
        if self._spare >= 0 and longest <= self._inline:
            return
        capacity = len(self._slots) // self._width
        count, filled = self._used.tolist()
        arriving_bytes = rows * (longest + 7) if longest > self._inline else 0
        fits = filled + arriving_bytes <= len(self._arena)
        if 3 * (count + rows) <= 2 * capacity and fits:
            self._spare = 2 * capacity // 3 - count - rows
            return
        keep = self._wanted()
        staying = int(np.count_nonzero(keep))
        while 2 * (staying + rows) > capacity:  # more than half full is worse than memory
            capacity *= 2
        lengths = self._slots[1 :: self._width][keep] & np.uint64(0xFFFF)
        staying_bytes = int((lengths[lengths > self._inline] + np.uint64(7)).sum())
        self._spare = 2 * capacity // 3 - staying - rows
        self._move(keep, capacity, max(_FIRST_ARENA, 2 * (staying_bytes + arriving_bytes)))

    def _wanted(self) -> NDArray[np.bool_]:
        keep: NDArray[np.bool_] = self._slots[1 :: self._width] != 0
        if self._still_wanted is not None:
            values = np.ascontiguousarray(self._slots[0 :: self._width][keep])
            keep[keep] = self._still_wanted(values)
        return keep

    def _move(self, keep: NDArray[np.bool_], capacity: int, arena_bytes: int) -> None:
        slots = free_slots(self._width * capacity)
        arena = np.zeros(arena_bytes, dtype=np.uint8)
        self._kernels.rehash(self._slots, self._arena, keep, slots, arena, self._used, self._seed)
        self._slots, self._arena = slots, arena


def free_slots(words: int) -> NDArray[np.uint64]:
    """Zeros that begin with a line of the processor's cache, so that no slot is in two of them."""
    memory = np.zeros(words + _LINE_BYTES // 8, dtype=np.uint64)
    start = -memory.ctypes.data % _LINE_BYTES // 8
    return memory[start : start + words]
