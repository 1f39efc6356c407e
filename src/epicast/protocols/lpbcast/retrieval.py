"""Events that others have and we have not (`retrieveBuf`), and events kept for others who ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from epicast.core import EventBatch, NodeId
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.event_ids import EventIds
from epicast.protocols.lpbcast.messages import EventRange, Notification
from epicast.protocols.notifications import EventId, id_ranges, some_ids

INFORMANT, ANYBODY, SOURCE, NOBODY = range(4)
"""Who is to be asked next."""
_ABANDONED_ROUNDS = 50
"""How long an event that nobody had is not asked for again."""


class _Missing:
    __slots__ = ("informant", "since", "stage")

    def __init__(self, informant: NodeId, since: int) -> None:
        self.informant = informant
        self.since = since
        """The round in which the next step may be taken."""
        self.stage = INFORMANT


class Retrieval:
    """Bounded: what does not fit is heard of again in the next digest."""

    __slots__ = ("_abandoned", "_max", "_missing", "_wait", "abandoned", "asked")

    def __init__(self, config: LpbcastConfig) -> None:
        self._missing: dict[EventId, _Missing] = {}
        self._abandoned: dict[EventId, int] = {}
        self._max = config.max_retrievals
        self._wait = config.retrieve_after_rounds
        self.asked = 0
        self.abandoned = 0

    def __len__(self) -> int:
        return len(self._missing)

    @property
    def room(self) -> int:
        return self._max - len(self._missing)

    def note(
        self, source: int, seq: int, informant: NodeId, at_round: int, *, at_once: bool = False
    ) -> bool:
        """`informant` has an event we lack; whether that is news."""
        event = (source, seq)
        if event in self._missing or self.room <= 0:
            return False
        given_up = self._abandoned.get(event)
        if given_up is not None:
            if at_round < given_up + _ABANDONED_ROUNDS:
                return False
            del self._abandoned[event]
        self._missing[event] = _Missing(informant, at_round + (0 if at_once else self._wait))
        return True

    def due(
        self,
        at_round: int,
        ids: EventIds,
        anybody: Callable[[], NodeId | None],
        can_reach: Callable[[NodeId], bool],
    ) -> dict[NodeId, list[EventId]]:
        """Whom to ask for what now. What has come by itself, or is to be had from nobody, is
        dropped from the list."""
        questions: dict[NodeId, list[EventId]] = {}
        for event, missing in list(self._missing.items()):
            if ids.contains(*event):
                del self._missing[event]
                continue
            if missing.since > at_round:
                continue
            missing.since = at_round + 1
            target: NodeId | None = None
            while target is None and missing.stage < NOBODY:
                if missing.stage == INFORMANT:
                    target = missing.informant
                elif missing.stage == ANYBODY:
                    target = anybody()
                elif can_reach(event[0]):
                    target = event[0]
                missing.stage += 1
            if target is None:
                del self._missing[event]
                self._abandon(event, at_round)
            else:
                questions.setdefault(target, []).append(event)
        self.asked += sum(map(len, questions.values()))
        return questions

    def _abandon(self, event: EventId, at_round: int) -> None:
        self.abandoned += 1
        while self._abandoned:
            oldest = next(iter(self._abandoned))
            expired = self._abandoned[oldest] + _ABANDONED_ROUNDS <= at_round
            if not expired and len(self._abandoned) < self._max:
                break
            del self._abandoned[oldest]
        self._abandoned[event] = at_round


class Store:
    """The newest events, whole batches as they came, for those who ask."""

    __slots__ = ("_batches", "_max_bytes", "_max_events", "bytes")

    def __init__(self, config: LpbcastConfig) -> None:
        self._batches: dict[EventId, tuple[EventBatch, int, int]] = {}
        """With the round an event would be of age 0 in, and its size."""
        self._max_events = config.max_stored_events if config.retrieval else 0
        self._max_bytes = config.max_stored_bytes
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batch: EventBatch, first: int, last: int, born: int) -> None:
        if not self._max_events:
            return
        size = batch.wire_size() // batch.rows
        for seq in range(first, last + 1):
            self._batches[batch.stream, seq] = (batch, born, size)
            self.bytes += size
        while len(self._batches) > self._max_events or self.bytes > self._max_bytes:
            self.bytes -= self._batches.pop(next(iter(self._batches)))[2]

    def find(self, wanted: Iterable[EventRange], most: int, at_round: int) -> list[Notification]:
        """What there is of it: at most so many events, whatever was asked for."""
        found = []
        for source, seq in some_ids(_tuples(wanted), most):
            held = self._batches.get((source, seq))
            if held is not None:
                batch, born, _ = held
                found.append(Notification(max(0, at_round - born), batch.slice(seq, seq)))
        return found


def _tuples(ranges: Iterable[EventRange]) -> Iterable[tuple[int, int, int]]:
    return ((item.source, item.first, item.last) for item in ranges)


def ranges_of(events: Iterable[EventId]) -> list[EventRange]:
    """Ids as few ranges."""
    return [EventRange(*item) for item in id_ranges(events)]
