"""Which events a node has had, per source, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from epicast.core.intervals import Interval, IntervalSet

_NOTHING: tuple[Interval, ...] = ()
_JUMP = 1024
"""A larger hole is no loss but a jump: an absence, or a number somebody made up. As much is
published at a time, at the most."""


class SeenEvents:
    """Duplicate suppression for protocols that may meet an event many times.

    Per source, nearly always, everything up to some number was had: one integer. What was had
    beyond a hole is kept aside as intervals until the hole is filled.

    Two bounds hold. A source beyond `max_sources` displaces the one that was quiet for longest:
    were that source to speak again, its old events would count as new. With a hole beyond
    `max_gaps` of a source one is closed: those events count as had, although they never came. It is
    the oldest hole beyond the last jump, or that jump if there is none. So numbers far ahead, which
    anybody can make up, close holes between themselves and not the one that the source is about to
    fill; and holes that nobody can fill give way to later ones. Both bounds are listed in
    `given_up` for the protocol to report, and never reached where they fit the load.
    """

    __slots__ = ("_beyond", "_max_gaps", "_max_sources", "ends", "given_up")

    def __init__(self, max_sources: int, max_gaps: int) -> None:
        self._max_sources = max_sources
        self._max_gaps = max_gaps
        self.ends: dict[int, int] = {}
        """Per source, the number up to which everything was had; in order of last use. For reading:
        a protocol that meets most events many times looks here before it asks `new_ranges`."""
        self._beyond: dict[int, IntervalSet] = {}
        """What was had beyond a hole, for sources that have one."""
        self.given_up: list[tuple[str, int, int, int]] = []
        """(reason, source, first, last), to be taken away by the caller."""

    def new_ranges(self, source: int, first: int, last: int) -> Sequence[Interval]:
        """Mark first..last as had; the parts that are new, in order."""
        ends = self.ends
        end = ends.get(source, 0)
        if last <= end:
            return _NOTHING
        if source in self._beyond or first > end + 1:
            return self._new_ranges_with_holes(source, end, first, last)
        if end:
            del ends[source]  # to the end of the order of last use
        ends[source] = last
        if len(ends) > self._max_sources:
            self._displace_quietest()
        return ((first if first > end else end + 1, last),)

    def lacking(self, source: int, first: int, last: int) -> Sequence[Interval]:
        """The parts of first..last that were not had, ascending."""
        first = max(first, self.ends.get(source, 0) + 1)
        if last < first:
            return _NOTHING
        beyond = self._beyond.get(source)
        return ((first, last),) if beyond is None else beyond.missing(first, last)

    def beyond(self, source: int) -> Iterable[Interval]:
        """What was had of one source beyond its first hole, ascending."""
        return self._beyond.get(source, _NOTHING)

    def newest(self, source: int) -> int:
        """The greatest number had of a source."""
        return max((last for _, last in self.beyond(source)), default=self.ends.get(source, 0))

    def covers(self, source: int, first: int, last: int) -> bool:
        """Whether all of first..last was had."""
        if last <= self.ends.get(source, 0):
            return True
        beyond = self._beyond.get(source)
        return beyond is not None and beyond.covers(first, last)

    @property
    def sources(self) -> int:
        return len(self.ends)

    def _new_ranges_with_holes(
        self, source: int, end: int, first: int, last: int
    ) -> Sequence[Interval]:
        beyond = self._beyond.setdefault(source, IntervalSet())
        new = beyond.add_new(max(first, end + 1), last)
        if not new:
            return new
        end = beyond.contiguous_end(end + 1)
        beyond.remove_below(end + 1)
        if len(beyond) > self._max_gaps:
            closed_first, closed_last = _hole_to_close(end, beyond)
            self.given_up.append(("gap", source, closed_first, closed_last))
            beyond.add(closed_first, closed_last)
            end = beyond.contiguous_end(end + 1)
            beyond.remove_below(end + 1)
        if not beyond:
            del self._beyond[source]
        self.ends.pop(source, None)
        self.ends[source] = end
        if len(self.ends) > self._max_sources:
            self._displace_quietest()
        return new

    def _displace_quietest(self) -> None:
        source = next(iter(self.ends))
        end = self.ends.pop(source)
        beyond = self._beyond.pop(source, ())
        last = max((last for _, last in beyond), default=end)
        self.given_up.append(("source", source, 1, last))


def _hole_to_close(end: int, beyond: Iterable[Interval]) -> Interval:
    """The oldest one beyond the last jump, or else that jump."""
    chosen, is_jump = (0, 0), True
    for first, last in beyond:
        hole = end + 1, first - 1
        if first - 1 - end > _JUMP:
            chosen, is_jump = hole, True
        elif is_jump:
            chosen, is_jump = hole, False
        end = last
    return chosen
