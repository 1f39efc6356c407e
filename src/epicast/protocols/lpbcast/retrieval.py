"""Events that others have and we have not (`retrieveBuf`), and events kept for others who ask."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter

from epicast.core import EventBatch, NodeId
from epicast.core.intervals import IntervalSet
from epicast.protocols.event_runs import EventRun, RunIndex, limited
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.event_ids import EventIds
from epicast.protocols.lpbcast.messages import EventRange, Notification

INFORMANT, ANYBODY, SOURCE, NOBODY = range(4)
"""Who is to be asked next."""
_FIRST_REST, _LONGEST_REST = 4, 50
"""Rounds in which events that nobody had are not asked for again: doubled each time."""


class _Missing:
    """Events first..last of a source, of which the same is known."""

    __slots__ = ("first", "informant", "last", "rest", "since", "source", "stage")

    def __init__(
        self, source: int, first: int, last: int, informant: NodeId, since: int, rest: int
    ) -> None:
        self.source = source
        self.first = first
        self.last = last
        self.informant = informant
        self.since = since
        """The round in which the next step may be taken."""
        self.rest = rest
        """Rounds to leave them alone for if nobody has them."""
        self.stage = INFORMANT

    @property
    def events(self) -> int:
        return self.last - self.first + 1

    def part(self, first: int, last: int) -> _Missing:
        part = _Missing(self.source, first, last, self.informant, self.since, self.rest)
        part.stage = self.stage
        return part


class Retrieval:
    """Bounded: what does not fit is heard of again in the next digest.

    Sources share the room. Where there is too little, the one with most of it leaves one with less
    half of what it has more. Sources that no event has come of, which anybody can make up, have
    half of the room together.
    """

    __slots__ = ("_given_up", "_held", "_left_alone", "_max", "_missing", "_wait", "abandoned",
                 "asked", "events", "knows")  # fmt: skip

    def __init__(self, config: LpbcastConfig, knows: Callable[[int], bool]) -> None:
        """`knows`: whether any event of a source has come."""
        self.knows = knows
        self._held: dict[int, int] = {}
        """By source, how many events are looked for."""
        self._missing: list[_Missing] = []
        self._given_up: deque[_Missing] = deque()
        """What nobody had, remembered for as long again as it is left alone."""
        self._left_alone: dict[int, IntervalSet] = {}
        """By source, what is looked for already or not to be looked for now."""
        self._max = config.max_retrievals
        self._wait = config.retrieve_after_rounds
        self.events = 0
        """That are looked for."""
        self.asked = 0
        self.abandoned = 0

    @property
    def idle(self) -> bool:
        return not self._missing and not self._given_up

    def note(
        self, source: int, first: int, last: int, informant: NodeId, at_round: int, *,
        at_once: bool = False,
    ) -> None:  # fmt: skip
        """`informant` has events that we lack."""
        known = self._left_alone.setdefault(source, IntervalSet())
        since = at_round + (0 if at_once else self._wait)
        # What is newest first, where not all of it finds room.
        for low, high in reversed(known.missing(first, last)):
            granted = self._grant(source, high - low + 1)
            if not granted:
                return
            low = high - granted + 1
            known.add(low, high)
            rest = self._next_rest(source, low, high)
            self._missing.append(_Missing(source, low, high, informant, since, rest))
            self._hold(source, granted)

    def _hold(self, source: int, more: int) -> None:
        self.events += more
        self._held[source] = self._held.get(source, 0) + more

    def _grant(self, source: int, wanted: int) -> int:
        """For how many events there is room, if others make some."""
        if not self.knows(source):
            strangers = [each for each in self._held if not self.knows(each)]
            wanted = self._fit(source, wanted, strangers, max(1, self._max // 2))
        return self._fit(source, wanted, list(self._held), self._max)

    def _fit(self, source: int, wanted: int, others: list[int], limit: int) -> int:
        held = self._held
        free = limit - sum(held[each] for each in others)
        while free < wanted and others:
            most = max(others, key=held.__getitem__)
            surplus = min(wanted - free, (held[most] - held.get(source, 0) - free) // 2)
            if surplus <= 0:
                break
            self._make_way(most, surplus)
            free += surplus
        return max(0, min(wanted, free))

    def _make_way(self, source: int, surplus: int) -> None:
        """So many events of a source are looked for no more, those first that were noted last; they
        are left alone until the next round."""
        self._hold(source, -surplus)
        kept = []
        for missing in reversed(self._missing):
            if missing.source == source and surplus:
                gone = min(surplus, missing.events)
                surplus -= gone
                missing.first += gone
            if missing.events:
                kept.append(missing)
        self._missing = kept[::-1]

    def due(
        self,
        at_round: int,
        ids: EventIds,
        anybody: Callable[[], NodeId | None],
        can_reach: Callable[[NodeId], bool],
    ) -> dict[NodeId, list[list[_Missing]]]:
        """Whom to ask for what now, as ranges of events that follow each other; `count_asked` must
        follow for those that were. What has come by itself, or is to be had from nobody, is dropped
        from the list."""
        questions: dict[NodeId, list[_Missing]] = {}
        kept: list[_Missing] = []
        for missing in self._still_missing(ids):
            if missing.since > at_round:
                kept.append(missing)
                continue
            target: NodeId | None = None
            while missing.stage < NOBODY:
                if missing.stage == INFORMANT:
                    target = missing.informant
                elif missing.stage == ANYBODY:
                    target = anybody()
                elif can_reach(missing.source):
                    target = missing.source
                if target is not None:
                    break
                missing.stage += 1
            if target is None:
                self._give_up(missing, at_round)
            else:
                kept.append(missing)
                questions.setdefault(target, []).append(missing)
        self._missing = kept
        self.events = 0
        self._held = {}
        for missing in kept:
            self._hold(missing.source, missing.events)
        self._forget_what_was_given_up(at_round)
        return {target: _ranges(wanted) for target, wanted in questions.items()}

    def count_asked(self, wanted: Iterable[_Missing], at_round: int) -> None:
        """Somebody was asked for them: the next one is after that, if there is no answer."""
        for missing in wanted:
            missing.stage += 1
            missing.since = at_round + 1
            self.asked += missing.events

    def _still_missing(self, ids: EventIds) -> list[_Missing]:
        still = []
        for missing in self._missing:
            lacking = ids.lacking(missing.source, missing.first, missing.last)
            if lacking and lacking[0] == (missing.first, missing.last):
                still.append(missing)
            else:
                still += [missing.part(first, last) for first, last in lacking]
        return still

    def _give_up(self, missing: _Missing, at_round: int) -> None:
        self.abandoned += missing.events
        missing.since = at_round + missing.rest
        self._given_up.append(missing)
        if len(self._given_up) > self._max:
            strangers = (item for item in self._given_up if not self.knows(item.source))
            self._given_up.remove(next(strangers, self._given_up[0]))

    def _forget_what_was_given_up(self, at_round: int) -> None:
        """And say anew what is not to be looked for."""
        given_up = self._given_up
        while given_up and at_round >= given_up[0].since + given_up[0].rest:
            given_up.popleft()
        self._left_alone = {}
        for missing in self._missing:
            self._leave_alone(missing)
        for missing in given_up:
            if missing.since > at_round:
                self._leave_alone(missing)

    def _leave_alone(self, missing: _Missing) -> None:
        known = self._left_alone.setdefault(missing.source, IntervalSet())
        known.add(missing.first, missing.last)

    def _next_rest(self, source: int, first: int, last: int) -> int:
        """Twice the last one, for events that nobody had before."""
        rests = [
            2 * item.rest
            for item in self._given_up
            if item.source == source and item.first <= last and first <= item.last
        ]
        return min(_LONGEST_REST, max(rests, default=_FIRST_REST))


def _ranges(wanted: list[_Missing]) -> list[list[_Missing]]:
    """Those that follow each other together."""
    ranges: list[list[_Missing]] = []
    for item in sorted(wanted, key=attrgetter("source", "first")):
        before = ranges[-1][-1] if ranges else None
        if before is not None and (before.source, before.last + 1) == (item.source, item.first):
            ranges[-1].append(item)
        else:
            ranges.append([item])
    return ranges


class Store:
    """The newest events, in the batches they came in, for those who ask."""

    __slots__ = ("_by_age", "_index", "_max_bytes", "_max_events", "bytes")

    def __init__(self, config: LpbcastConfig) -> None:
        self._index = RunIndex()
        self._by_age: deque[EventRun] = deque()
        self._max_events = config.max_stored_events if config.retrieval else 0
        self._max_bytes = config.max_stored_bytes
        self.bytes = 0

    def __len__(self) -> int:
        return self._index.events

    def add(self, batch: EventBatch, first: int, last: int, age: int, at_round: int) -> None:
        """Events first..last of `batch`, none of which is here."""
        if not self._max_events:
            return
        run = EventRun(batch, first, last, age, at_round, 0, 0)
        self._index.put(run)
        self._by_age.append(run)
        self.bytes += run.size * run.rows
        while self._index.events > self._max_events or self.bytes > self._max_bytes:
            self._shorten_oldest()

    def _shorten_oldest(self) -> None:
        """By as many events as are too many, or as it has."""
        oldest = self._by_age[0]
        surplus = max(
            self._index.events - self._max_events,
            -((self._max_bytes - self.bytes) // max(1, oldest.size)),
        )
        surplus = min(surplus, oldest.rows)
        self._index.remove(oldest)
        self.bytes -= surplus * oldest.size
        oldest.first += surplus
        if oldest.rows:
            self._index.put(oldest)
        else:
            self._by_age.popleft()

    def find(self, wanted: Iterable[EventRange], most: int, at_round: int) -> list[Notification]:
        """What there is of it: at most so many events, whatever was asked for."""
        found = []
        ranges = ((item.source, item.first, item.last) for item in wanted)
        for source, first, last in limited(ranges, most):
            for run in self._index.overlapping(source, first, last):
                part = run.batch.slice(max(first, run.first), min(last, run.last))
                found.append(Notification(max(0, at_round - run.round + run.age), part))
        return found
