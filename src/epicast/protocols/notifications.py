"""The buffer of events that a gossiping node still passes on, and what it throws out when full.

Which events are kept and which are purged does not depend on how they were batched: it is decided
for single events, and done for runs of them (`event_runs`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from random import Random
from typing import Literal

from epicast.core import EventBatch
from epicast.core.sampling import choose, sample
from epicast.protocols.event_runs import EventRun, RunIndex

Purging = Literal["random", "age"]

OUT_OF_TURN = "a publication before it was refused: publish it again, under the number of that one"

_in_order = attrgetter("arrival", "first")
_by_age = attrgetter("age")
_by_repetitions = attrgetter("repetitions")


class NotificationBuffer:
    __slots__ = ("_arrivals", "_index", "_is_split", "_long_ago", "_max_bytes", "_max_events",
                 "_purging", "_rng", "bytes")  # fmt: skip

    def __init__(
        self, max_events: int, max_bytes: int, purging: Purging, long_ago: int, rng: Random
    ) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._purging = purging
        self._long_ago = long_ago
        self._rng = rng
        self._index = RunIndex()
        self._arrivals = 0
        self._is_split = False
        """Whether parts of runs may be out of order."""
        self.bytes = 0

    def __len__(self) -> int:
        """In events."""
        return self._index.events

    def runs(self) -> list[EventRun]:
        """In the order they came; to be changed only through this class."""
        if self._is_split:
            self._index.reorder(sorted(self._index, key=_in_order))
            self._is_split = False
        return list(self._index)

    def add(
        self, batch: EventBatch, first: int, last: int, age: int, at_round: int, hops: int = 0
    ) -> None:
        """Events first..last of `batch`, none of which is here. `purge` must follow."""
        self._arrivals += 1
        run = EventRun(batch, first, last, age, at_round, hops, self._arrivals)
        self._index.put(run)
        self.bytes += run.size * run.rows

    def find(self, source: int, first: int, last: int) -> list[EventRun]:
        """What there is of these events, ascending."""
        return [
            run if first <= run.first and run.last <= last
            else run.part(max(first, run.first), min(last, run.last))
            for run in self._index.overlapping(source, first, last)
        ]  # fmt: skip

    def raise_age(self, source: int, first: int, last: int, age: int, most: int) -> None:
        """Somebody knows the events to be at least this old; `most` rounds older is believed."""
        for run in self._index.overlapping(source, first, last):
            if run.age < age:
                self._cut_out(run, first, last).age = min(age, run.age + most)

    def count_repetition(self, source: int, first: int, last: int) -> None:
        """The events were passed on once more."""
        for run in self._index.overlapping(source, first, last):
            self._cut_out(run, first, last).repetitions += 1

    def grow_older(self, max_age: int) -> None:
        """A round has passed; what is older than `max_age` (0: nothing is) goes. Parts of a run
        that are in the same state again become one."""
        before: EventRun | None = None
        for run in self.runs():
            run.age += 1
            if 0 < max_age < run.age:
                self.remove(run)
            elif (
                before is not None
                and run.arrival == before.arrival
                and run.repetitions == before.repetitions
                and run.continues(before)
            ):
                self._index.remove(before)
                self._index.remove(run)
                before.last = run.last
                self._index.put(before)
                self._is_split = True
            else:
                before = run

    def remove(self, run: EventRun) -> None:
        self._index.remove(run)
        self.bytes -= run.size * run.rows

    def purge(self) -> list[EventRun]:
        """Throw out what is too much, and say what that was."""
        if not self._is_too_full():
            return []
        if self._purging == "random":
            surplus = max(0, len(self) - self._max_events)
            purged = self._purge_at(sample(self._rng, range(len(self)), surplus))
            while self.bytes > self._max_bytes:
                purged += self._purge_at([choose(self._rng, range(len(self)))])
            return purged
        runs = self.runs()
        purged = self._purge_in_order(self._out_of_date(runs))
        if self._is_too_full():
            # Stable: of equally old ones, that which is here for longest.
            by_age = sorted(self.runs() if purged else runs, key=_by_age, reverse=True)
            purged += self._purge_in_order(by_age)
        return purged

    def _is_too_full(self) -> bool:
        return self._index.events > self._max_events or self.bytes > self._max_bytes

    def _purge_in_order(self, candidates: Iterable[EventRun]) -> list[EventRun]:
        """Of each the first ones, until what is left fits."""
        purged = []
        for run in candidates:
            surplus = max(
                self._index.events - self._max_events,
                -((self._max_bytes - self.bytes) // max(1, run.size)),
            )
            if surplus <= 0:
                break
            part = self._cut_out(run, run.first, min(run.last, run.first + surplus - 1))
            self.remove(part)
            purged.append(part)
        return purged

    def _purge_at(self, positions: list[int]) -> list[EventRun]:
        """The events at these positions of the order they came in."""
        waiting = deque(sorted(positions))
        found: list[tuple[int, int]] = []
        begin = 0
        for run in self.runs():
            while waiting and waiting[0] < begin + run.rows:
                found.append((run.batch.stream, run.first + waiting.popleft() - begin))
            begin += run.rows
        purged = []
        for source, seq in found:
            [run] = self._index.overlapping(source, seq, seq)
            part = self._cut_out(run, seq, seq)
            self.remove(part)
            purged.append(part)
        return purged

    def _out_of_date(self, runs: list[EventRun]) -> list[EventRun]:
        """Events that came long before the newest of the same source (Fig. 9(a), in rounds)."""
        newest: dict[int, int] = {}
        for run in runs:
            newest[run.batch.stream] = max(newest.get(run.batch.stream, 0), run.round)
        return [run for run in runs if newest[run.batch.stream] - run.round > self._long_ago]

    def _cut_out(self, run: EventRun, first: int, last: int) -> EventRun:
        """What is in first..last of a run here, as a run of its own."""
        if first <= run.first and run.last <= last:
            return run
        self._index.remove(run)
        self._is_split = True
        parts = [run.part(max(first, run.first), min(last, run.last))]
        if run.first < first:
            parts.append(run.part(run.first, first - 1))
        if last < run.last:
            parts.append(run.part(last + 1, run.last))
        for part in parts:
            self._index.put(part)
        return parts[0]

    def least_repeated(self) -> list[EventRun]:
        """All runs, those first that were passed on least often."""
        return sorted(self.runs(), key=_by_repetitions)

    def mean_age_beyond(self, size: int) -> float | None:
        """The mean age of what a buffer of `size` events would have no room for."""
        surplus = count = len(self) - size
        if surplus <= 0:
            return None
        total = 0
        for run in sorted(self._index, key=_by_age, reverse=True):
            rows = min(surplus, run.rows)
            total += rows * run.age
            surplus -= rows
            if not surplus:
                break
        return total / count


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


class Turns:
    """Keeps the numbers of a publisher without gaps: after a refusal, all publications are refused
    until the refused number comes again."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused = 0
        """The first number that was refused and has not come again; 0 if there is none."""

    def objection(self, batch: EventBatch) -> str:
        """Return why a publication must wait for an earlier one, or an empty string."""
        if batch.first == self._refused:
            self._refused = 0
        return OUT_OF_TURN if 0 < self._refused < batch.first else ""

    def note_refused(self, batch: EventBatch) -> None:
        self._refused = self._refused or batch.first


def unpinned(batch: EventBatch) -> EventBatch:
    """For keeping: not as a small view of a large buffer."""
    return batch.copied() if batch.pinned_bytes > 2 * batch.wire_size() + 4096 else batch
