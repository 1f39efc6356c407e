"""The buffer of events that a gossiping node still passes on, and what it throws out when full.

One entry per event, so that what is kept and what is purged does not depend on how events were
batched; the bytes stay in the batches they came in, and events of one batch that are still together
travel as one slice of it. Buffers are small (tens to a few hundred entries): plain loops over them
are fine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from random import Random
from typing import Literal, TypeVar

from epicast.core import EventBatch
from epicast.core.sampling import choose, sample

T = TypeVar("T")
Purging = Literal["random", "age"]
EventId = tuple[int, int]
"""Source and sequence number."""


class Buffered:
    """An event that is passed on."""

    __slots__ = ("age", "batch", "hops", "repetitions", "round", "seq", "size")

    def __init__(self, batch: EventBatch, seq: int, age: int, at_round: int, hops: int) -> None:
        self.batch = batch
        """That it came in, with others perhaps."""
        self.seq = seq
        self.age = age
        """Rounds since it was published, as far as this node knows."""
        self.round = at_round
        """In which the node got it."""
        self.repetitions = 0
        """How often the node has passed it on."""
        self.hops = hops
        """How often it was passed on before it came here."""
        self.size = batch.wire_size() // batch.rows


_by_age = attrgetter("age")
_by_repetitions = attrgetter("repetitions")


class NotificationBuffer:
    __slots__ = ("_long_ago", "_max_bytes", "_max_events", "_purging", "_rng", "bytes", "entries")

    def __init__(
        self, max_events: int, max_bytes: int, purging: Purging, long_ago: int, rng: Random
    ) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._purging = purging
        self._long_ago = long_ago
        self._rng = rng
        self.entries: dict[EventId, Buffered] = {}
        """In the order they came; for reading."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, event: EventId) -> bool:
        return event in self.entries

    def add(
        self, batch: EventBatch, first: int, last: int, age: int, at_round: int, hops: int = 0
    ) -> None:
        """Events first..last of `batch`, none of which is here. `purge` must follow."""
        for seq in range(first, last + 1):
            entry = Buffered(batch, seq, age, at_round, hops)
            self.entries[batch.stream, seq] = entry
            self.bytes += entry.size

    def raise_age(self, event: EventId, age: int) -> None:
        """Somebody knows the event to be at least this old."""
        entry = self.entries.get(event)
        if entry is not None and entry.age < age:
            entry.age = age

    def grow_older(self, max_age: int) -> None:
        """A round has passed; what is older than `max_age` (0: nothing is) goes."""
        outdated = []
        for event, entry in self.entries.items():
            entry.age += 1
            if 0 < max_age < entry.age:
                outdated.append(event)
        for event in outdated:
            self.remove(event)

    def remove(self, event: EventId) -> Buffered:
        entry = self.entries.pop(event)
        self.bytes -= entry.size
        return entry

    def purge(self) -> list[Buffered]:
        """Throw out what is too much, and say what that was."""
        if len(self.entries) <= self._max_events and self.bytes <= self._max_bytes:
            return []
        if self._purging == "random":
            surplus = max(0, len(self.entries) - self._max_events)
            purged = self._purge_in_order(sample(self._rng, list(self.entries), surplus))
            while self.bytes > self._max_bytes:
                purged.append(self.remove(choose(self._rng, list(self.entries))))
            return purged
        purged = self._purge_in_order(self._out_of_date())
        # Stable: of equally old ones, that which is here for longest.
        by_age = sorted(self.entries, key=lambda event: -self.entries[event].age)
        return purged + self._purge_in_order(by_age)

    def _purge_in_order(self, candidates: Iterable[EventId]) -> list[Buffered]:
        purged = []
        for event in candidates:
            if len(self.entries) <= self._max_events and self.bytes <= self._max_bytes:
                break
            purged.append(self.remove(event))
        return purged

    def _out_of_date(self) -> list[EventId]:
        """Events that came long before the newest of the same source (Fig. 9(a), in rounds)."""
        newest: dict[int, int] = {}
        for (source, _), entry in self.entries.items():
            newest[source] = max(newest.get(source, 0), entry.round)
        return [
            (source, seq)
            for (source, seq), entry in self.entries.items()
            if newest[source] - entry.round > self._long_ago
        ]

    def runs(self, entries: Iterable[Buffered]) -> Iterator[tuple[EventBatch, int, Buffered]]:
        """The events as few slices: (events, age, one of the entries). Together travels what came
        together and is of one age."""
        run: list[Buffered] = []
        for entry in entries:
            if run and not _continues(run[-1], entry):
                yield _sliced(run)
                run = []
            run.append(entry)
        if run:
            yield _sliced(run)

    def least_repeated(self) -> list[Buffered]:
        """All entries, those first that were passed on least often."""
        return sorted(self.entries.values(), key=_by_repetitions)

    def ages_beyond(self, size: int) -> Sequence[int]:
        """The ages of what a buffer of `size` events would have no room for."""
        surplus = len(self.entries) - size
        if surplus <= 0:
            return ()
        return sorted(map(_by_age, self.entries.values()), reverse=True)[:surplus]


def _continues(before: Buffered, entry: Buffered) -> bool:
    return (
        entry.batch is before.batch
        and entry.seq == before.seq + 1
        and entry.age == before.age
        and entry.hops == before.hops
    )


def _sliced(run: list[Buffered]) -> tuple[EventBatch, int, Buffered]:
    head = run[0]
    return head.batch.slice(head.seq, run[-1].seq), head.age, head


IdRange = tuple[int, int, int]
"""Source, first and last number."""


def id_ranges(events: Iterable[EventId]) -> list[IdRange]:
    """Ids as few ranges, in order."""
    ranges: list[IdRange] = []
    for source, seq in sorted(events):
        if ranges and ranges[-1][0] == source and ranges[-1][2] + 1 == seq:
            ranges[-1] = (source, ranges[-1][1], seq)
        else:
            ranges.append((source, seq, seq))
    return ranges


def some_ids(ranges: Iterable[IdRange], most: int) -> Iterator[EventId]:
    """The first so many ids of ranges that somebody else has made up."""
    for source, first, last in ranges:
        for seq in range(first, min(last, first + most - 1) + 1):
            most -= 1
            yield source, seq
        if most <= 0:
            return


def packed(items: Iterable[T], size_of: Callable[[T], int], room: int) -> Iterator[list[T]]:
    """The items in order, as few messages with so many bytes of room. One that is larger than that
    has a message to itself."""
    message: list[T] = []
    left = room
    for item in items:
        size = size_of(item)
        if message and size > left:
            yield message
            message, left = [], room
        message.append(item)
        left -= size
    if message:
        yield message


def is_notification(batch: EventBatch) -> bool:
    """Whether these are events as gossip carries them: every number has one. Were coverage without
    rows let in, a few bytes could bury any range of numbers."""
    return batch.rows == batch.last - batch.first + 1


def refusal(batch: EventBatch, max_event_bytes: int) -> str:
    """Why these events cannot be published; empty if they can."""
    if not is_notification(batch):
        return "gossip has no tombstones: publish events only"
    longest = batch.longest
    size = longest.key + longest.payload
    if size > max_event_bytes:
        return f"an event of {size} bytes; max_event_bytes is {max_event_bytes}"
    return ""


def unpinned(batch: EventBatch) -> EventBatch:
    """For keeping: not as a small view of a large buffer."""
    return batch.copied() if batch.pinned_bytes > 2 * batch.wire_size() + 4096 else batch
