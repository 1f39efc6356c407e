"""How long nothing happened although it should have. Times are taken to the millisecond."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
_MS = 1_000_000
_MERGE_AT = 1 << 16
_NOTHING = np.empty(0, dtype=np.int64)


class Moments:
    """Milliseconds at which something happened, each once; with the highest place until then."""

    def __init__(self) -> None:
        self._times = _NOTHING
        self._places = np.empty(0, dtype=np.uint64)
        self._waiting: list[tuple[I64, U64]] = []
        self._count = 0

    def add(self, times: I64, places: U64 | None = None) -> None:
        if len(times):
            if places is None:
                places = np.zeros(len(times), dtype=np.uint64)
            self._waiting.append((times // _MS, places))
            self._count += len(times)
            if self._count > _MERGE_AT + len(self._times):
                self._merge()

    def _merge(self) -> None:
        times = np.concatenate([self._times, *(times for times, _ in self._waiting)])
        places = np.concatenate([self._places, *(places for _, places in self._waiting)])
        order = np.argsort(times, kind="stable")
        times, places = times[order], np.maximum.accumulate(places[order])
        last = np.append(times[1:] != times[:-1], True) if len(times) else times == 0
        self._times, self._places = times[last], places[last]
        self._waiting, self._count = [], 0

    @property
    def times(self) -> I64:
        self._merge()
        return self._times

    @property
    def places(self) -> U64:
        """The highest up to each moment."""
        self._merge()
        return self._places


def longest_wait(asked: I64, answered: I64, end: int) -> float:
    """The longest time from when something was asked for, nothing being answered, to the next
    answer, or the end. In seconds."""
    if not len(asked):
        return 0.0
    since = np.append(asked[0], answered)
    until = np.append(answered, max(end, int(asked[-1])))
    at = np.searchsorted(asked, since, side="left")
    waits = np.where(at < len(asked), until - asked[np.minimum(at, len(asked) - 1)], np.int64(0))
    return max(0, int(waits.max())) / 1000


class Pauses:
    """The longest time a subscriber got nothing although there was more than it had."""

    def __init__(self, acks: Moments) -> None:
        self._ack_times, self._ack_places = acks.times, acks.places
        self._at: int | None = None
        self._place = np.uint64(0)
        self._longest_ms = 0

    def take(self, times: I64, places: U64, opened: NDArray[np.bool_]) -> None:
        """Deliveries in their order: when, and the place the subscriber then was at. Before it was
        `opened` it was not there, which is not the system's fault."""
        if not len(times) or not len(self._ack_times):
            return
        times = times // _MS
        if self._at is None:
            self._at, self._place = int(times[0]), places[0]
        places = np.maximum.accumulate(np.append(self._place, places))
        since = np.where(opened, times, np.append(self._at, times[:-1]))
        self._note(since, places[:-1], times)
        self._at, self._place = int(times[-1]), places[-1]

    def _note(self, since: I64, had: U64, until: I64) -> None:
        at = np.searchsorted(self._ack_places, had, side="right")
        more = at < len(self._ack_times)
        began = np.maximum(since[more], self._ack_times[at[more]])
        pauses = until[more] - began
        if len(pauses):
            self._longest_ms = max(self._longest_ms, int(pauses.max()))

    def finish(self, end: int | None) -> float:
        """In seconds. `end`: when it was closed, or the run was over; None if it crashed."""
        if self._at is not None and end is not None:
            self._note(np.array([self._at]), np.array([self._place]), np.array([end // _MS]))
        return self._longest_ms / 1000
