"""Events in order, as bytes and bounds: what batches are compared with, without a look at each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch

_LEAST = 64
Numbers = NDArray[np.int64]


class Growing:
    """Numbers that are added at the end."""

    __slots__ = ("_room", "size")

    def __init__(self) -> None:
        self._room: Numbers = np.empty(_LEAST, dtype=np.int64)
        self.size = 0

    def extend(self, numbers: NDArray[np.generic]) -> None:
        needed = self.size + len(numbers)
        if needed > len(self._room):
            room = np.empty(max(needed, 2 * len(self._room)), dtype=np.int64)
            room[: self.size] = self._room[: self.size]
            self._room = room
        self._room[self.size : needed] = numbers
        self.size = needed

    @property
    def all(self) -> Numbers:
        return self._room[: self.size]


class EventColumns:
    """Keys and payloads back to back, where each begins, kinds and times; row 0 first."""

    __slots__ = ("_bounds", "data", "kinds", "rows", "times")

    def __init__(self) -> None:
        self.rows = 0
        self.data = bytearray()
        self._bounds = Growing()
        self._bounds.extend(np.zeros(1, dtype=np.int64))
        self.kinds = Growing()
        self.times = Growing()

    def add(self, batch: EventBatch) -> None:
        """The rows of a batch that buries nothing."""
        self._bounds.extend(batch.offsets[1:].astype(np.int64) + len(self.data))
        self.data += batch.data
        self.kinds.extend(batch.kinds)
        self.times.extend(batch.times)
        self.rows += batch.rows

    def key(self, row: int) -> bytes:
        begin, end = self._bounds.all[2 * row : 2 * row + 2].tolist()
        return bytes(self.data[begin:end])

    def payload(self, row: int) -> bytes:
        begin, end = self._bounds.all[2 * row + 1 : 2 * row + 3].tolist()
        return bytes(self.data[begin:end])

    def keys(self, first: int) -> list[bytes]:
        """Of all rows from `first` on."""
        bounds = self._bounds.all[2 * first :].tolist()
        data = self.data
        return [
            bytes(data[begin:end]) for begin, end in zip(bounds[:-1:2], bounds[1::2], strict=True)
        ]

    def differs(self, batch: EventBatch, numbered_from: int) -> str:
        """What of a batch is not what is here, row 0 being `numbered_from`; empty: nothing is."""
        if not batch.rows:
            return ""
        seqs, bounds, kinds = batch.seqs, batch.offsets.astype(np.int64), batch.kinds
        breaks = np.flatnonzero(np.diff(seqs) != 1) + 1
        starts = [0, *breaks.tolist()]
        for low, high in zip(starts, [*starts[1:], batch.rows], strict=True):
            first = int(seqs[low]) - numbered_from
            problem = self._run_differs(
                first, bounds[2 * low : 2 * high + 1], kinds[low:high], batch.data
            )
            if problem:
                return f"{problem} between {int(seqs[low])} and {int(seqs[high - 1])}"
        return ""

    def _run_differs(
        self, first: int, bounds: Numbers, kinds: NDArray[np.uint8], data: memoryview
    ) -> str:
        rows = len(kinds)
        if first < 0 or first + rows > self.rows:
            return "there are events that are not known"
        own = self._bounds.all[2 * first : 2 * (first + rows) + 1]
        begin, end = own.item(0), own.item(-1)
        if not np.array_equal(own - begin, bounds - bounds[0]):
            return "keys or payloads have other lengths"
        if not np.array_equal(self.kinds.all[first : first + rows], kinds):
            return "events are of another kind"
        if self.data[begin:end] != data[bounds.item(0) : bounds.item(-1)]:
            return "keys or payloads have other bytes"
        return ""
