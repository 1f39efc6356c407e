"""What a node has delivered (`eventIds`), as digests say it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from epicast.core.intervals import Interval
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.messages import DIGEST_RANGE_BYTES, SourceDigest, digest_bytes
from epicast.protocols.seen import SeenEvents

_MOST_BEYOND = 8
"""Ranges beyond a hole that a digest lists, the newest: more would crowd out other sources."""
_MOST_AHEAD = 1 << 40
"""Numbers further ahead of what is known of a source are nobody's: it would take a thousand events
a second 35 years to get there. Numbers in between cost nothing, so it need not be less, and whoever
was away for long is not kept from going on."""


class EventIds:
    """Per source the last id delivered in sequence, and what was delivered beyond it.

    What others say is had here only decides what to ask for. A source is heard of for the first
    time at some number, and most of what was before is no business of ours: all but the last
    `late_events` numbers are not asked for. A node that has just started goes further: what digests
    name in its first rounds was before its time. But an event that comes after all is delivered,
    and what follows it is asked for, whatever was said before.
    """

    __slots__ = ("_floors", "_hearsay", "_late", "_max_sources", "_seen", "_settled", "_turns",
                 "forgotten", "had")  # fmt: skip

    def __init__(self, config: LpbcastConfig) -> None:
        self._seen = SeenEvents(config.max_sources, config.max_gaps)
        self.had = self._seen.covers
        """Whether all of these events of a source were delivered."""
        self._late = config.late_events
        self._max_sources = config.max_sources
        self._settled = False
        self._floors: dict[int, int] = {}
        """By source, the number up to which events are not asked for; not those without any."""
        self._hearsay: dict[int, int] = {}
        """The same of sources that no event has come of."""
        self._turns: dict[int, None] = {}
        """Sources by when a digest named them in turn, the one whose turn it is first."""
        self.forgotten = 0
        """Sources displaced by others: their events would be delivered again."""

    def settle(self) -> None:
        """The first rounds are over."""
        self._settled = True

    def knows(self, source: int) -> bool:
        """Whether any event of it was delivered."""
        return source in self._seen.ends

    def plausible(self, source: int, last: int) -> bool:
        """Whether a source may have got to this number."""
        return (
            last <= self._seen.ends.get(source, 0) + _MOST_AHEAD
            or last <= self._seen.newest(source) + _MOST_AHEAD
        )

    def new_ranges(self, source: int, first: int, last: int) -> Sequence[Interval]:
        """Mark first..last as delivered; the parts that are new."""
        known = source in self._seen.ends
        new = self._seen.new_ranges(source, first, last)
        if not known:
            self._meet(source, first)
        elif new and self._floors and new[0][0] <= self._floors.get(source, 0):
            self._floors[source] = new[0][0]
        return new

    def _meet(self, source: int, first: int) -> None:
        self._turns[source] = None
        said = self._hearsay.pop(source, 0)
        floor = first if first <= said else max(said, first - 1 - self._late)
        if floor > 0:
            self._floors[source] = floor

    def lacking(self, source: int, first: int, last: int) -> Sequence[Interval]:
        """The parts of first..last that have not come, ascending."""
        return self._seen.lacking(source, first, last)

    def given_up(self) -> Iterator[tuple[str, int, int, int]]:
        """(reason, source, first, last) of what bounds made us forget; each once."""
        while self._seen.given_up:
            item = reason, source, _, _ = self._seen.given_up.pop()
            if reason == "source":
                self.forgotten += 1
                self._turns.pop(source, None)
                self._floors.pop(source, None)
            yield item

    @property
    def sources(self) -> int:
        return self._seen.sources

    def digest(self, room: int) -> tuple[SourceDigest, ...]:
        """What of all sources `room` bytes hold. Half of it is for those that spoke last; the rest
        they take in turns, at least one at a time, so that a loss is noticed however long the
        source has been silent since."""
        items: dict[int, SourceDigest] = {}
        left = room - room // 2
        for source in reversed(self._seen.ends):
            item = self._item(source, _MOST_BEYOND)
            if digest_bytes(len(item.beyond)) > left:
                break
            items[source] = item
            left -= digest_bytes(len(item.beyond))
        left += room // 2
        named: list[int] = []
        for source in self._turns:
            if source not in items:
                item = self._item(source, _MOST_BEYOND)
                if digest_bytes(len(item.beyond)) > left:
                    if named:
                        break
                    item = self._item(source, (left - digest_bytes(0)) // DIGEST_RANGE_BYTES)
                items[source] = item
                left -= digest_bytes(len(item.beyond))
            named.append(source)
        for source in named:
            del self._turns[source]
            self._turns[source] = None
        return tuple(items.values())

    def _item(self, source: int, ranges: int) -> SourceDigest:
        beyond = tuple(self._seen.beyond(source))
        return SourceDigest(source, self._seen.ends[source], beyond[max(0, len(beyond) - ranges) :])

    def missing(self, item: SourceDigest, most: int) -> list[Interval]:
        """What another has delivered of a source and we have not: at most so many events, the
        newest."""
        source = item.source
        if not item.beyond and item.end <= self._seen.ends.get(source, 0):  # most items end here
            return []
        floor = self._floor(source, item.beyond[-1][1] if item.beyond else item.end)
        if not self._settled:
            return []
        found: list[Interval] = []
        for low, high in reversed(((1, item.end), *item.beyond)):
            for first, last in reversed(self._seen.lacking(source, max(low, floor + 1), high)):
                first = max(first, last - most + 1)
                most -= last - first + 1
                found.append((first, last))
                if not most:
                    return found
        return found

    def _floor(self, source: int, newest: int) -> int:
        """Up to where events are not asked for, now that somebody has got to `newest`."""
        if source in self._seen.ends:
            return self._floors.get(source, 0)
        said = self._hearsay.get(source)
        if said is None and len(self._hearsay) >= self._max_sources:
            del self._hearsay[next(iter(self._hearsay))]
        if not self._settled:
            floor = newest if said is None else min(said, newest)
        elif said is None or newest < said - self._late:  # who said so was far behind, or lied
            floor = max(0, newest - 1 - self._late)
        else:
            floor = min(said, newest)
        self._hearsay[source] = floor
        return floor


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
