"""Everything known before a block is judged: small, and the same for all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from epicast.evidence import EvidenceError
from epicast.evidence.schema import StreamFacts
from epicast.log.errors import PredicateError
from epicast.log.predicate import Predicate, key_in, plan, split_gc_payload
from epicast.pipeline.audit.completeness import NEVER, Completeness
from epicast.pipeline.audit.surveys import Dropped, Extent, Survey, joined
from epicast.pipeline.audit.tracking import Segment

TIME_SLOTS = 120
"""Deliveries over time are counted in so many slots."""


class Rules(Struct, frozen=True):
    grace_ns: int = 5_000_000_000
    clock_tolerance_ns: int = 100_000_000
    block_bits: int = 20


class GcEvent(NamedTuple):
    seq: int
    time: int
    key: bytes
    size: int
    predicate: Predicate

    @property
    def acts_as_key(self) -> bool:
        """Whether it collects, and is collected, like an event with its key."""
        return bool(self.key) and self.predicate == key_in([self.key])


class Heir(NamedTuple):
    """A later epoch, and where its own numbers begin: those below it has from the one before."""

    epoch: int
    bound: int


class Case:
    def __init__(self, surveys: Sequence[Survey], rules: Rules) -> None:
        self.rules = rules
        self.streams: dict[int, StreamFacts] = {}
        self.segments: list[Segment] = []
        self.segment_log: list[int] = []
        """By segment."""
        self.first_segment: list[int] = []
        """By log."""
        self.parts = [(number, part) for number, each in enumerate(surveys) for part in each.files]
        """Files, each with the number of its log."""
        self.roles = [each.role for each in surveys]
        self.extents: dict[tuple[int, int], Extent] = {}
        self.acked = {pair for each in surveys for pair in each.acked}
        """Streams, each with a publisher."""
        for number, each in enumerate(surveys):
            self.streams.update(each.streams)
            self.first_segment.append(len(self.segments))
            self.segments += each.segments
            self.segment_log += [number] * len(each.segments)
            for extent in each.extents:
                place = extent.stream, extent.epoch
                before = self.extents.get(place)
                self.extents[place] = joined(before, extent) if before else extent
        self._epochs = self._list_epochs()
        self.gc: dict[tuple[int, int], list[GcEvent]] = {}
        self.dropped: dict[tuple[int, int], list[Dropped]] = {}
        for each in surveys:
            self._take_notes(each)
        for place, events in self.gc.items():
            self.gc[place] = _first_of_each(events)
        self._completeness = Completeness(surveys, self)
        self.ownerless = self._completeness.ownerless
        self.covered = self._completeness.covered
        ends = [time for each in surveys if each.rows for time in (each.first_time, each.last_time)]
        self.first_time, last_time = (min(ends), max(ends)) if ends else (0, 0)
        self.slot_ns = max(1, -(-(last_time - self.first_time + 1) // TIME_SLOTS))

    def _list_epochs(self) -> dict[int, list[int]]:
        """Of every stream, in order, those that anybody speaks of."""
        found: dict[int, set[int]] = {}
        for stream, epoch in self.extents:
            found.setdefault(stream, set()).add(epoch)
        for segment in self.segments:
            found.setdefault(segment.stream, set()).add(segment.epoch)
        return {stream: sorted(epochs) for stream, epochs in found.items()}

    def heirs(self, stream: int, epoch: int) -> list[Heir]:
        """The epoch itself and those after it, as far as they go on with what it had: an owner that
        lost something keeps the rest, under a new epoch."""
        found = [Heir(epoch, NEVER)]
        bound = NEVER
        for later in self._epochs.get(stream, []):
            if later > epoch:
                extent = self.extents.get((stream, later))
                bound = min(bound, extent.first) if extent else bound
                if bound > 1:
                    found.append(Heir(later, bound))
        return found

    def _take_notes(self, each: Survey) -> None:
        for note in each.gc:
            try:
                predicate, _ = split_gc_payload(note.payload)
            except PredicateError as error:
                raise EvidenceError(
                    f"{each.folder}: the GC event {note.seq} cannot be understood: {error}"
                ) from None
            event = GcEvent(note.seq, note.time, note.key, len(note.payload), predicate)
            for epoch, bound in self.heirs(note.stream, note.epoch):
                if note.seq < bound:
                    self.gc.setdefault((note.stream, epoch), []).append(event)
        for dropped in each.dropped:
            for epoch, _ in self.heirs(dropped.stream, dropped.epoch):
                self.dropped.setdefault((dropped.stream, epoch), []).append(dropped)

    def epochs_of(self, stream: int) -> list[int]:
        return self._epochs.get(stream, [])

    def first_of(self, stream: int, epoch: int) -> int:
        """The first number of a stream that is of an epoch, not of one before."""
        extent = self.extents.get((stream, epoch))
        return extent.first if extent else NEVER

    def judged_until(self, stream: int, epoch: int) -> int:
        return self._completeness.judged_until(stream, epoch)

    def publications_judged_until(self, stream: int) -> int:
        return self._completeness.publications_judged_until(stream)

    @property
    def events(self) -> int:
        """That owners logged."""
        return sum(extent.events for extent in self.extents.values())

    @property
    def rows(self) -> int:
        """The same, as often as they did."""
        return sum(extent.rows for extent in self.extents.values())

    def rows_of(self, stream: int) -> int:
        return sum(each.rows for (other, _), each in self.extents.items() if other == stream)

    @cached_property
    def keyed(self) -> set[int]:
        """Streams that keep the latest event per key."""
        return {stream for stream, facts in self.streams.items() if facts.latest_per_key}

    @cached_property
    def searched(self) -> set[int]:
        """Streams with GC events for which keys and sizes of events have to be looked at."""
        return {
            stream
            for (stream, _), events in self.gc.items()
            if any(not plan(event.predicate).is_seq_below for event in events)
        }

    @cached_property
    def segments_of(self) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = {}
        for index, segment in enumerate(self.segments):
            found.setdefault((segment.stream, segment.epoch), []).append(index)
        return found

    def keyless(self, stream: int, epoch: int) -> NDArray[np.int64]:
        """GC events that do not act as an event with their key would."""
        events = self.gc.get((stream, epoch), [])
        return np.array([event.seq for event in events if not event.acts_as_key], dtype=np.int64)


def _first_of_each(events: list[GcEvent]) -> list[GcEvent]:
    """By number, as the first of all logs has it that tell of it."""
    found: dict[int, GcEvent] = {}
    for event in sorted(events, key=lambda event: (event.seq, event.time)):
        found.setdefault(event.seq, event)
    return list(found.values())
