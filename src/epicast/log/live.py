"""Which sequence numbers are live: stored here, and not collected.

One bit per number where most are live, two bytes per live number where few are, and twelve bytes
per 65,536 numbers where none is, so that a long history of collected events costs next to nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epicast.log.errors import LogError
from epicast.log.rows import Rows, enlarged

_PAGE_BITS = 16
_PAGE_WORDS = 1024
_LIST_SIZE = 256
_MOST_PAGES = 1 << 26
"""Pages between the oldest live number and the newest: four million million numbers."""

_Found = NDArray[np.uint64]
_Column = NDArray[Any]


class LiveSet:
    def __init__(self) -> None:
        from epicast.log.kernels import live

        self._kernels: Any = live
        self._origin = 0
        self._places = np.empty(0, dtype=np.int32)
        self._counts = np.empty(0, dtype=np.int32)
        self._bitmaps = np.empty(0, dtype=np.uint64)
        self._lists = np.empty(0, dtype=np.uint16)
        self._free_bitmaps: list[int] = []
        self._free_lists: list[int] = []
        self._pages = 0
        """Pages in use; the arrays have room for more, which are empty."""
        self._newest = -1
        """The last page that was made sure to have a bitmap; it keeps that."""

    def __len__(self) -> int:
        return int(self._counts[: self._pages].sum(dtype=np.int64))

    @property
    def memory_bytes(self) -> int:
        return sum(a.nbytes for a in (self._places, self._counts, self._bitmaps, self._lists))

    def check_reach(self, seq: int) -> None:
        """Raise `LogError` if a number is too far from the oldest one here to be added."""
        if self._pages and (seq >> _PAGE_BITS) - self._origin >= _MOST_PAGES:
            raise LogError(
                f"sequence number {seq} is too far from the oldest live event, at about "
                f"{self._origin << _PAGE_BITS}; collect that one first"
            )

    def insert(self, seqs: _Found) -> None:
        """Add ascending numbers above all that are in."""
        if not len(seqs):
            return
        first, last = seqs.item(0), seqs.item(-1)
        if last - first + 1 == len(seqs):
            self.insert_range(first, last)
            return
        self._reach(first >> _PAGE_BITS, last >> _PAGE_BITS)
        for page in np.unique(seqs >> np.uint64(_PAGE_BITS)).tolist():
            self._ensure_bitmap(page - self._origin)
        self._kernels.insert(seqs, self._origin, self._places, self._counts, self._bitmaps)

    def insert_range(self, first: int, last: int) -> None:
        """Add all numbers between these, above all that are in."""
        self.make_room(first, last)
        self._kernels.insert_range(
            first, last, self._origin, self._places, self._counts, self._bitmaps
        )

    def make_room(self, first: int, last: int) -> None:
        """Have bitmaps for the pages of numbers that are about to be added."""
        low, high = first >> _PAGE_BITS, last >> _PAGE_BITS
        if low == high == self._newest:
            return
        self._reach(low, high)
        for page in range(low - self._origin, high - self._origin + 1):
            self._ensure_bitmap(page)
        self._newest = high

    @property
    def columns(self) -> tuple[int, _Column, _Column, _Column, _Column]:
        """What kernels work on; good until room is made."""
        return self._origin, self._places, self._counts, self._bitmaps, self._lists

    def remove(self, seqs: _Found) -> int:
        """Take out those that are in, 0 being none; how many those were."""
        removed: int = self._kernels.remove(seqs, *self.columns)
        return removed

    def remove_below(self, bound: int) -> int:
        """Take out everything below `bound`."""
        removed: int = self._kernels.remove_below(bound, *self.columns)
        return removed

    def contains(self, seqs: _Found) -> NDArray[np.bool_]:
        answers = np.empty(len(seqs), dtype=np.bool_)
        self._kernels.contains(seqs, answers, *self.columns)
        return answers

    def keep(self, rows: Rows, first: int = 0) -> None:
        """Leave only the rows, from a number on, that are live; in the same columns."""
        rows.shorten(self._kernels.keep(first, *rows.columns, *self.columns))

    def count(self, first: int, last: int) -> int:
        return int(self.count_between(np.array([first, last + 1], dtype=np.uint64))[0])

    def count_between(self, bounds: _Found) -> NDArray[np.int64]:
        """How many lie in bounds[0] .. bounds[1] - 1, in bounds[1] .. bounds[2] - 1 and so on."""
        totals = np.empty(len(bounds) - 1, dtype=np.int64)
        self._kernels.count_between(bounds, totals, *self.columns)
        return totals

    def members(self, first: int, last: int, limit: int | None = None) -> _Found:
        """Those between first and last, ascending, at most `limit`."""
        most = self.count(first, last) if limit is None else min(limit, last - first + 1)
        found = np.empty(max(0, most), dtype=np.uint64)
        total = self._kernels.members(first, last, found, *self.columns)
        return found[:total]

    def next(self, first: int, last: int) -> int | None:
        """The lowest between first and last."""
        found = self.members(first, last, 1)
        return int(found[0]) if len(found) else None

    def tidy(self) -> None:
        """Give back the room of empty pages, and make lists of bitmaps with few members.

        The newest page is left alone: numbers are still being added to it.
        """
        places, counts = self._places[: self._pages], self._counts[: self._pages]
        self._empty(np.flatnonzero((counts[:-1] == 0) & (places[:-1] != -1)))
        small = (counts[:-1] <= _LIST_SIZE) & (places[:-1] >= 0)
        for page in np.flatnonzero(small).tolist():
            place = places.item(page)
            target = self._take_list()
            self._kernels.to_list(place, target, self._bitmaps, self._lists)
            places[page] = -2 - target
            self._free_bitmaps.append(place)
        empty = int(np.argmax(places != -1)) if self._pages else 0
        if empty:
            self._drop_pages(empty)

    def _reach(self, low: int, high: int) -> None:
        """Have pages up to the number `high`."""
        if not self._pages:
            self._origin = low
        needed = high - self._origin + 1
        if needed > len(self._places):
            room = max(needed, 2 * len(self._places), 16)
            self._places = enlarged(self._places, room)
            self._counts = enlarged(self._counts, room)
            self._places[self._pages :] = -1
            self._counts[self._pages :] = 0
        self._pages = max(needed, self._pages)

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
        self._places[left:] = -1
        self._counts[left:] = 0
        self._pages = left
        self._origin += count
