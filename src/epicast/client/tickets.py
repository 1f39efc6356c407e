"""A batch on its way, and who waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from epicast.core import EpicastError
from epicast.runtime.waiting import Outcome


class Waiter(NamedTuple):
    """Somebody who waits for the events between two of the publisher's numbers."""

    first: int
    last: int
    outcome: Outcome[int]


class Ticket:
    __slots__ = ("count", "evidence", "first", "size", "waiters")

    def __init__(self, first: int, count: int, size: int, waiters: Sequence[Waiter]) -> None:
        """`waiters`: those who wait for any of its events."""
        self.first = first
        self.count = count
        self.size = size
        self.waiters = waiters
        self.evidence: tuple[int, int] | None = None
        """What was noted when it was sent."""

    @property
    def attended(self) -> bool:
        """Whether somebody waits for every one of its events."""
        end = self.first + self.count
        return self.count == sum(
            min(waiter.last + 1, end) - max(waiter.first, self.first) for waiter in self.waiters
        )

    def acknowledge(self, seq: int) -> None:
        """`seq` is the stream's number of the last event."""
        last = self.first + self.count - 1
        for waiter in self.waiters:
            if waiter.last <= last:
                waiter.outcome.resolve(seq - (last - waiter.last))

    def fail(self, error: EpicastError) -> None:
        for waiter in self.waiters:
            waiter.outcome.fail(error)
