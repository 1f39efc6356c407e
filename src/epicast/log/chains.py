"""All live events of a key, for exact-key predicates on streams that keep more than the latest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventKind
from epicast.log.errors import LogError
from epicast.log.keys import KeyTable
from epicast.log.rows import Rows, enlarged

_FIRST_ROOM = 1 << 12
_MOST_ENTRIES = 2**32 - 1


class KeyChains:
    """Twenty-four bytes per live event, and a table of keys. Collected events are passed over
    until they are half of all, then dropped."""

    def __init__(self, is_live: Callable[[NDArray[np.uint64]], NDArray[np.bool_]]) -> None:
        self._is_live = is_live
        self._table = KeyTable(_is_something)
        self._filled = 1  # entries count from 1
        self._seqs = np.zeros(_FIRST_ROOM, dtype=np.uint64)
        self._times = np.zeros(_FIRST_ROOM, dtype=np.int64)
        self._sizes = np.zeros(_FIRST_ROOM, dtype=np.uint32)
        self._links = np.zeros(_FIRST_ROOM, dtype=np.uint32)

    @property
    def memory_bytes(self) -> int:
        return self._table.memory_bytes + 24 * len(self._seqs)

    def add(self, rows: Rows) -> None:
        """Data events with a key, newer than all others here."""
        wanted = (rows.key_bytes > 0) & (rows.kinds == EventKind.DATA)
        rows = rows.where(wanted)
        if self._filled + rows.count > len(self._seqs):
            self._make_room(rows.count)
        low, high = self._filled, self._filled + rows.count
        self._seqs[low:high] = rows.seqs
        self._times[low:high] = rows.times
        self._sizes[low:high] = rows.sizes
        self._links[low:high] = self._table.exchange(rows, np.arange(low, high, dtype=np.uint64))
        self._filled = high

    def below(self, keys: tuple[bytes, ...], bound: int, *, cut: bool) -> Rows:
        """The events with one of the keys and below a number, collected ones among them.

        With `cut` they are forgotten: the caller is about to collect them all.
        """
        from epicast.log.kernels.chains import walk

        heads = self._table.get(keys)
        nothing = np.empty(0, dtype=np.int64)
        total = walk(heads, bound, False, self._seqs, self._links, nothing, nothing)
        entries = np.empty(total, dtype=np.int64)
        owners = np.empty(total, dtype=np.int64)
        before = heads.copy()
        walk(heads, bound, cut, self._seqs, self._links, entries, owners)
        for index in np.flatnonzero(heads != before).tolist():
            self._table.put(keys[index], 0)
        rows = Rows.of_keys(keys)
        rows.count = total
        rows.key_at, rows.key_bytes = rows.key_at[owners], rows.key_bytes[owners]
        rows.seqs = self._seqs[entries]
        rows.times = self._times[entries]
        rows.sizes = self._sizes[entries].astype(np.int64)
        return rows

    def _make_room(self, count: int) -> None:
        from epicast.log.kernels.chains import relink

        live = np.zeros(self._filled, dtype=np.bool_)
        live[1:] = self._is_live(self._seqs[1 : self._filled])
        if 2 * np.count_nonzero(live) < self._filled:
            moved = np.empty(self._filled, dtype=np.int64)
            kept = relink(live, self._links, moved)
            for column in (self._seqs, self._times, self._sizes):
                column[1 : kept + 1] = column[: self._filled][live]
            self._table.replace(moved)
            self._filled = kept + 1
        needed = self._filled + count
        if needed > _MOST_ENTRIES:
            raise LogError(f"{needed} live events with keys are too many for exact-key predicates")
        if needed > len(self._seqs):
            room = max(needed, len(self._seqs) * 3 // 2)
            self._seqs = enlarged(self._seqs, room)
            self._times = enlarged(self._times, room)
            self._sizes = enlarged(self._sizes, room)
            self._links = enlarged(self._links, room)


def _is_something(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    something: NDArray[np.bool_] = values != 0
    return something
