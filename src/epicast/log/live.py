"""Which sequence numbers are live: stored here, and not collected.

One bit per number where most are live, two bytes per live number where few are, and twelve bytes
per 65,536 numbers where none is, so that a long history of collected events costs next to nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast.log.errors import LogError
from epicast.log.rows import enlarged

_PAGE_BITS = 16
_PAGE_WORDS = 1024
_LIST_SIZE = 256
_MOST_PAGES = 1 << 26
"""Pages between the oldest live number and the newest: four million million numbers."""

_Found = NDArray[np.uint64]


class LiveSet:
    def __init__(self) -> None:
        self._origin = 0
        self._places = np.empty(0, dtype=np.int32)
        self._counts = np.empty(0, dtype=np.int32)
        self._bitmaps = np.empty(0, dtype=np.uint64)
        self._lists = np.empty(0, dtype=np.uint16)
        self._free_bitmaps: list[int] = []
        self._free_lists: list[int] = []
        self._pages = 0
        """Pages in use; the arrays have room for more."""

    def __len__(self) -> int:
        return int(self._counts[: self._pages].sum(dtype=np.int64))

    @property
    def memory_bytes(self) -> int:
        return sum(a.nbytes for a in (self._places, self._counts, self._bitmaps, self._lists))

    def insert(self, seqs: _Found) -> None:
        """Add ascending numbers above all that are in."""
        from epicast.log.kernels.live import insert, insert_range

        if not len(seqs):
            return
        first, last = seqs.item(0), seqs.item(-1)
        low, high = first >> _PAGE_BITS, last >> _PAGE_BITS
        dense = last - first + 1 == len(seqs)
        self._reach(low, high)
        if low == high or dense:
            for page in range(low, high + 1):
                self._ensure_bitmap(page - self._origin)
        else:
            for page in np.unique(seqs >> np.uint64(_PAGE_BITS)).tolist():
                self._ensure_bitmap(page - self._origin)
        if dense:
            insert_range(first, last, self._origin, self._places, self._counts, self._bitmaps)
        else:
            insert(seqs, self._origin, self._places, self._counts, self._bitmaps)

    def remove(self, seqs: _Found) -> int:
        """Take out those that are in, 0 being none; how many those were."""
        from epicast.log.kernels.live import remove

        removed: int = remove(
            seqs, self._origin, self._places[: self._pages], self._counts, self._bitmaps,
            self._lists,
        )  # fmt: skip
        return removed

    def remove_below(self, bound: int) -> int:
        """Take out everything below `bound`."""
        page = min((bound >> _PAGE_BITS) - self._origin, self._pages)
        if page < 0:
            return 0
        removed = int(self._counts[:page].sum(dtype=np.int64))
        self._counts[:page] = 0
        self._empty(np.flatnonzero(self._places[:page] != -1))
        if page < self._pages and bound & 0xFFFF:
            start = (self._origin + page) << _PAGE_BITS
            removed += self.remove(self.members(start, bound - 1))
        return removed

    def contains(self, seqs: _Found) -> NDArray[np.bool_]:
        from epicast.log.kernels.live import contains

        answers = np.empty(len(seqs), dtype=np.bool_)
        contains(
            seqs, self._origin, self._places[: self._pages], self._counts, self._bitmaps,
            self._lists, answers,
        )  # fmt: skip
        return answers

    def count(self, first: int, last: int) -> int:
        return int(self.count_between(np.array([first, last + 1], dtype=np.uint64))[0])

    def count_between(self, bounds: _Found) -> NDArray[np.int64]:
        """How many lie in bounds[0] .. bounds[1] - 1, in bounds[1] .. bounds[2] - 1 and so on."""
        from epicast.log.kernels.live import count_between

        totals = np.empty(len(bounds) - 1, dtype=np.int64)
        count_between(
            bounds, totals, self._origin, self._places[: self._pages], self._counts, self._bitmaps,
            self._lists,
        )  # fmt: skip
        return totals

    def members(self, first: int, last: int, limit: int | None = None) -> _Found:
        """Those between first and last, ascending, at most `limit`."""
        from epicast.log.kernels.live import members

        found = np.empty(self.count(first, last) if limit is None else limit, dtype=np.uint64)
        total = members(
            first, last, found, self._origin, self._places[: self._pages], self._counts,
            self._bitmaps, self._lists,
        )  # fmt: skip
        return found[:total]

    def next(self, first: int, last: int) -> int | None:
        """The lowest between first and last."""
        found = self.members(first, last, 1)
        return int(found[0]) if len(found) else None

    def tidy(self) -> None:
        """Give back the room of empty pages, and make lists of bitmaps with few members.

        The newest page is left alone: numbers are still being added to it.
        """
        from epicast.log.kernels.live import to_list

        places, counts = self._places[: self._pages], self._counts[: self._pages]
        self._empty(np.flatnonzero((counts[:-1] == 0) & (places[:-1] != -1)))
        small = (counts[:-1] <= _LIST_SIZE) & (places[:-1] >= 0)
        for page in np.flatnonzero(small).tolist():
            place = places.item(page)
            target = self._take_list()
            to_list(place, target, self._bitmaps, self._lists)
            places[page] = -2 - target
            self._free_bitmaps.append(place)
        empty = int(np.argmax(places != -1)) if self._pages else 0
        if empty:
            self._drop_pages(empty)

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]

    def _reach(self, low: int, high: int) -> None:
        """Have pages up to the number `high`."""
        if not self._pages:
            self._origin = low
        needed = high - self._origin + 1
        if needed > _MOST_PAGES:
            raise LogError(
                f"sequence number {high << _PAGE_BITS} is too far from the oldest live event, "
                f"{self._origin << _PAGE_BITS}; collect that one first"
            )
        if needed > len(self._places):
            room = max(needed, 2 * len(self._places), 16)
            self._places = enlarged(self._places, room)
            self._counts = enlarged(self._counts, room)
        if needed > self._pages:
            self._places[self._pages : needed] = -1
            self._counts[self._pages : needed] = 0
            self._pages = needed

    def _ensure_bitmap(self, page: int) -> None:
        if self._places.item(page) != -1:
            return
        if not self._free_bitmaps:
            count = len(self._bitmaps) // _PAGE_WORDS
            added = max(4, count // 2)
            self._bitmaps = enlarged(self._bitmaps, (count + added) * _PAGE_WORDS)
            self._free_bitmaps.extend(range(count + added - 1, count - 1, -1))
        place = self._free_bitmaps.pop()
        self._bitmaps[place * _PAGE_WORDS : (place + 1) * _PAGE_WORDS] = 0
        self._places[page] = place

    def _take_list(self) -> int:
        if not self._free_lists:
            count = len(self._lists) // _LIST_SIZE
            added = max(16, count // 2)
            self._lists = enlarged(self._lists, (count + added) * _LIST_SIZE)
            self._free_lists.extend(range(count + added - 1, count - 1, -1))
        return self._free_lists.pop()

    def _empty(self, pages: NDArray[np.intp]) -> None:
        for place in self._places[pages].tolist():
            if place >= 0:
                self._free_bitmaps.append(place)
            else:
                self._free_lists.append(-2 - place)
        self._places[pages] = -1

    def _drop_pages(self, count: int) -> None:
        """Forget the first pages, which are empty."""
        left = self._pages - count
        self._places[:left] = self._places[count : self._pages].copy()
        self._counts[:left] = self._counts[count : self._pages].copy()
        self._pages = left
        self._origin += count
