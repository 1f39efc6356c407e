"""A batch on its way, and who waits for it."""

from __future__ import annotations

from collections.abc import Sequence

from epicast.core import EpicastError
from epicast.runtime.waiting import Outcome


class Ticket:
    __slots__ = ("_whole", "count", "first", "size", "waiters")

    def __init__(self, first: int, count: int, size: int, whole: Outcome[int] | None) -> None:
        """`whole`: the outcome of a larger publication it is part of."""
        self.first = first
        self.count = count
        self.size = size
        self._whole = whole
        self.waiters: Sequence[tuple[int, Outcome[int]]] = ()
        """By the publisher's number of the event waited for."""

    @property
    def attended(self) -> bool:
        """Whether somebody waits for every one of its events."""
        return self._whole is not None or len(self.waiters) == self.count

    def acknowledge(self, seq: int) -> None:
        """`seq` is the stream's number of the last event."""
        last = self.first + self.count - 1
        for number, outcome in self.waiters:
            outcome.resolve(seq - (last - number))

    def fail(self, error: EpicastError) -> None:
        for _, outcome in self.waiters:
            outcome.fail(error)
        if self._whole is not None:
            self._whole.fail(error)
