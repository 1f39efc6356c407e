"""The numbers a publisher gives its own events of one stream.

No number is given twice, not even that of an event that was refused: a copy of it may still be
under way, and the owner takes nothing under a number at or below one that it knows. So a publisher
that was started again goes on behind every number it has ever given; a number that is too high is
harmless, because the first publication of a new run says that everything before it is settled.
"""

from __future__ import annotations


class PublisherNumbers:
    __slots__ = ("_next", "refused")

    def __init__(self, first: int) -> None:
        self._next = first
        self.refused = 0
        """Events that were refused; nothing else gets their numbers."""

    @property
    def next(self) -> int:
        """The number of the next event, in this run or, if it is saved, in another."""
        return self._next

    def take(self, count: int) -> int:
        """Give numbers to `count` events; returns the first."""
        first, self._next = self._next, self._next + count
        return first
