"""What a node has delivered (`eventIds`), as digests say it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from epicast.core.intervals import Interval
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.messages import SourceDigest, digest_bytes
from epicast.protocols.seen import SeenEvents

_MOST_BEYOND = 8
"""Ranges beyond a hole that a digest lists, the newest: more would crowd out other sources."""


class EventIds:
    """Per source the last id delivered in sequence, and what was delivered beyond it.

    A source is heard of for the first time at some number. Most of what was before is no business
    of ours: all but the last `late_events` numbers count as had. A node that has just started goes
    further: what digests name in its first rounds was before its time, and counts as had once it
    has settled, unless it came by then.
    """

    __slots__ = ("_before_our_time", "_late", "_max_sources", "_seen", "_settled")

    def __init__(self, config: LpbcastConfig) -> None:
        self._seen = SeenEvents(config.max_sources, config.max_gaps)
        self._late = config.late_events
        self._max_sources = config.max_sources
        self._settled = False
        self._before_our_time: dict[int, int] = {}

    def settle(self) -> None:
        """The first rounds are over."""
        if self._settled:
            return
        self._settled = True
        for source, end in self._before_our_time.items():
            self._seen.new_ranges(source, 1, end)
        self._before_our_time.clear()

    def had(self, source: int, last: int) -> bool:
        """Whether everything up to `last` was had, if that is plain to see."""
        return last <= self._seen.ends.get(source, 0)

    def new_ranges(self, source: int, first: int, last: int) -> Sequence[Interval]:
        """Mark first..last as delivered; the parts that are new."""
        self._meet(source, first)
        return self._seen.new_ranges(source, first, last)

    def lacking(self, source: int, first: int, last: int) -> Sequence[Interval]:
        """The parts of first..last that have not come, ascending."""
        return self._seen.lacking(source, first, last)

    def given_up(self) -> Iterator[tuple[str, int, int, int]]:
        """(reason, source, first, last) of what bounds made us forget; each once."""
        while self._seen.given_up:
            yield self._seen.given_up.pop()

    @property
    def sources(self) -> int:
        return self._seen.sources

    def digest(self, room: int) -> tuple[SourceDigest, ...]:
        """As many sources as `room` bytes hold, those that spoke last first."""
        items = []
        for source in reversed(self._seen.ends):
            end = self._seen.ends[source]
            beyond = tuple(self._seen.beyond(source))[-_MOST_BEYOND:]
            room -= digest_bytes(len(beyond))
            if room < 0:
                break
            items.append(SourceDigest(source, end, beyond))
        return tuple(items)

    def missing(self, item: SourceDigest, most: int) -> list[Interval]:
        """What another has delivered of a source and we have not: at most so many events, the
        newest."""
        source = item.source
        if not item.beyond and self.had(source, item.end):  # most items end here
            return []
        newest = item.beyond[-1][1] if item.beyond else item.end
        if not self._settled:
            if source not in self._seen.ends and len(self._before_our_time) < self._max_sources:
                self._before_our_time.setdefault(source, newest)
            return []
        self._meet(source, newest)
        found: list[Interval] = []
        for low, high in reversed(((1, item.end), *item.beyond)):
            for first, last in reversed(self._seen.lacking(source, low, high)):
                first = max(first, last - most + 1)
                most -= last - first + 1
                found.append((first, last))
                if not most:
                    return found
        return found

    def _meet(self, source: int, first: int) -> None:
        if first - 1 > self._late and source not in self._seen.ends:
            self._seen.new_ranges(source, 1, first - 1 - self._late)


def well_formed(item: SourceDigest) -> bool:
    """Whether a digest is one: ranges that ascend, with holes between them."""
    if item.source < 0 or item.end < 0:
        return False
    covered = item.end
    for first, last in item.beyond:
        if first <= covered + 1 or last < first:
            return False
        covered = last
    return True
