"""Sets of sequence numbers as sorted, disjoint, closed intervals.

Deduplication and gap detection work on ranges of consecutive numbers, so a peer that has
everything up to a million costs one interval. `tests/unit/core/test_intervals.py` compares this
class with a plain set of integers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

Interval = tuple[int, int]

_NOTHING: tuple[Interval, ...] = ()


class IntervalSet:
    __slots__ = ("_firsts", "_lasts")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in intervals:
            self.add(first, last)

    def add(self, first: int, last: int) -> bool:
        """Add first..last; whether any of it was missing."""
        if last < first:
            raise ValueError(f"interval {first}..{last} ends before it starts")
        firsts, lasts = self._firsts, self._lasts
        if not lasts:
            firsts.append(first)
            lasts.append(last)
            return True
        # Almost every call extends the newest interval, or repeats what it covers.
        if first >= firsts[-1]:
            newest = lasts[-1]
            if last <= newest:
                return False
            if first <= newest + 1:
                lasts[-1] = last
                return True
            firsts.append(first)
            lasts.append(last)
            return True
        low = bisect_left(lasts, first - 1)  # first interval that touches or follows
        high = bisect_right(firsts, last + 1)  # one past the last that touches or precedes
        if low == high:
            firsts.insert(low, first)
            lasts.insert(low, last)
            return True
        if firsts[low] <= first and last <= lasts[low]:
            return False
        merged_first = min(first, firsts[low])
        merged_last = max(last, lasts[high - 1])
        firsts[low:high] = [merged_first]
        lasts[low:high] = [merged_last]
        return True

    def add_new(self, first: int, last: int) -> Sequence[Interval]:
        """Add first..last and return the parts that were missing, ascending."""
        lasts = self._lasts
        if lasts and first >= self._firsts[-1] and first <= last:
            newest = lasts[-1]
            if last <= newest:
                return _NOTHING
            if first <= newest + 1:
                lasts[-1] = last
                return ((newest + 1, last),)
        new = self.missing(first, last)
        if new:
            self.add(first, last)
        return new

    def covers(self, first: int, last: int) -> bool:
        """Whether every number of first..last is in the set."""
        index = bisect_left(self._lasts, last)
        return index < len(self._lasts) and self._firsts[index] <= first

    def missing(self, first: int, last: int) -> list[Interval]:
        """The parts of first..last that are not in the set, ascending."""
        gaps: list[Interval] = []
        index = bisect_left(self._lasts, first)
        cursor = first
        while cursor <= last and index < len(self._firsts) and self._firsts[index] <= last:
            if self._firsts[index] > cursor:
                gaps.append((cursor, self._firsts[index] - 1))
            cursor = self._lasts[index] + 1
            index += 1
        if cursor <= last:
            gaps.append((cursor, last))
        return gaps

    def remove_below(self, bound: int) -> None:
        """Forget every number below `bound`."""
        index = bisect_left(self._lasts, bound)
        del self._firsts[:index]
        del self._lasts[:index]
        if self._firsts and self._firsts[0] < bound:
            self._firsts[0] = bound

    def contiguous_end(self, start: int) -> int:
        """The highest n such that start..n are all in the set; start - 1 if start is not."""
        index = bisect_left(self._lasts, start)
        if index < len(self._firsts) and self._firsts[index] <= start:
            return self._lasts[index]
        return start - 1

    @property
    def gaps(self) -> int:
        """How many holes lie between the intervals."""
        return max(0, len(self._firsts) - 1)

    def total(self) -> int:
        """How many numbers the set holds."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __contains__(self, number: int) -> bool:
        return self.covers(number, number)

    def __iter__(self) -> Iterator[Interval]:
        return iter(zip(self._firsts, self._lasts, strict=True))

    def __len__(self) -> int:
        return len(self._firsts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return self._firsts == other._firsts and self._lasts == other._lasts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IntervalSet({list(self)})"
