"""Events that gossiping nodes hold, as runs: consecutive events of one batch that are in the same
state.

What is kept, passed on, purged and asked for is decided event by event, and must not depend on how
events were batched. Most of the time the same is decided for all events of a batch; so a run stands
for them, and falls apart where decisions differ. Work is per run then, and bytes stay where they
came.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from epicast.core import EventBatch

T = TypeVar("T")
IdRange = tuple[int, int, int]
"""Source, first and last number."""


class EventRun:
    """Events first..last of `batch`."""

    __slots__ = ("age", "arrival", "batch", "first", "hops", "last", "repetitions", "round", "size")

    def __init__(
        self, batch: EventBatch, first: int, last: int, age: int, at_round: int, hops: int,
        arrival: int,
    ) -> None:  # fmt: skip
        self.batch = batch
        """That they came in, with others perhaps."""
        self.first = first
        self.last = last
        self.age = age
        """Rounds since they were published, as far as this node knows."""
        self.round = at_round
        """In which the node got them."""
        self.repetitions = 0
        """How often the node has passed them on."""
        self.hops = hops
        """How often they were passed on before they came here."""
        self.size = batch.wire_size() // batch.rows
        """Bytes of one of them."""
        self.arrival = arrival
        """Runs of a later arrival came later; parts of one run have the same."""

    @property
    def source(self) -> int:
        return self.batch.stream

    @property
    def rows(self) -> int:
        return self.last - self.first + 1

    def events(self) -> EventBatch:
        return self.batch.slice(self.first, self.last)

    def part(self, first: int, last: int) -> EventRun:
        """Some of the events, in the same state."""
        part = EventRun(self.batch, first, last, self.age, self.round, self.hops, self.arrival)
        part.repetitions = self.repetitions
        return part

    def continues(self, before: EventRun) -> bool:
        """Whether it can travel together with those before."""
        return (
            self.batch is before.batch
            and self.first == before.last + 1
            and self.age == before.age
            and self.hops == before.hops
        )


class RunIndex:
    """Runs that do not overlap, found by the numbers of their events."""

    __slots__ = ("_firsts", "_runs", "events")

    def __init__(self) -> None:
        self._runs: dict[tuple[int, int], EventRun] = {}
        """By source and first number, in the order they were put here."""
        self._firsts: dict[int, list[int]] = {}
        """Of each source, ascending."""
        self.events = 0

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[EventRun]:
        return iter(self._runs.values())

    def put(self, run: EventRun) -> None:
        source, first = run.batch.stream, run.first
        self._runs[source, first] = run
        self.events += run.last - first + 1
        firsts = self._firsts.get(source)
        if firsts is None:
            self._firsts[source] = [first]
        elif first > firsts[-1]:
            firsts.append(first)
        else:
            insort(firsts, first)

    def remove(self, run: EventRun) -> None:
        source, first = run.batch.stream, run.first
        del self._runs[source, first]
        self.events -= run.last - first + 1
        firsts = self._firsts[source]
        if len(firsts) == 1:
            del self._firsts[source]
        else:
            del firsts[bisect_left(firsts, first)]

    def reorder(self, runs: Iterable[EventRun]) -> None:
        """The same runs in another order."""
        self._runs = {(run.batch.stream, run.first): run for run in runs}

    def overlapping(self, source: int, first: int, last: int) -> list[EventRun]:
        """The runs with any of these events, ascending."""
        run = self._runs.get((source, first))
        if run is not None and run.last >= last:  # mostly events come in the same runs again
            return [run]
        firsts = self._firsts.get(source)
        if firsts is None:
            return []
        begin, end = bisect_right(firsts, first) - 1, bisect_right(firsts, last)
        runs = [self._runs[source, each] for each in firsts[max(0, begin) : end]]
        return runs[1:] if runs and runs[0].last < first else runs


def together(runs: Iterable[EventRun]) -> Iterator[EventRun]:
    """The events as few runs: what came together and is of one age travels together."""
    whole: EventRun | None = None
    for run in runs:
        if whole is not None and run.continues(whole):
            whole = whole.part(whole.first, run.last)
            continue
        if whole is not None:
            yield whole
        whole = run
    if whole is not None:
        yield whole


def merged(ranges: Iterable[IdRange]) -> list[IdRange]:
    """Disjoint ranges as few, in order."""
    found: list[IdRange] = []
    for source, first, last in sorted(ranges):
        if found and found[-1][0] == source and found[-1][2] + 1 == first:
            found[-1] = (source, found[-1][1], last)
        else:
            found.append((source, first, last))
    return found


def limited(ranges: Iterable[IdRange], most: int) -> Iterator[IdRange]:
    """The first so many events of ranges that somebody else has made up."""
    for source, first, last in ranges:
        if most <= 0:
            return
        last = min(last, first + most - 1)
        most -= last - first + 1
        yield source, first, last


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


def in_parts(
    batch: EventBatch, room: int, size_of: Callable[[EventBatch], int]
) -> list[EventBatch]:
    """Events that do not fit a message together, in halves, until they do or are alone."""
    if batch.rows == 1 or size_of(batch) <= room:
        return [batch]
    middle = (batch.first + batch.last) // 2
    halves = batch.slice(batch.first, middle), batch.slice(middle + 1, batch.last)
    return [part for half in halves for part in in_parts(half, room, size_of)]
