"""The audit, event by event on plain lists and dictionaries: what the real one is compared with.

What collects what is asked of `tests.log.reference`, which says it in a few plain lines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from epicast.core import Event
from epicast.evidence import Kind
from epicast.log import GcPolicy
from epicast.pipeline.audit import Counts, Rules
from tests.log.reference import collects, predicate_of


@dataclass
class Stored:
    event: Event
    content: int
    hashed: int
    time: int


@dataclass
class Row:
    kind: Kind
    subscription: int
    epoch: int
    first: int
    last: int
    time: int
    digest: int = 0


@dataclass
class Place:
    """A subscription in an epoch."""

    first: int
    reached: int
    closed: int | None = None
    rows: list[tuple[Row, bool]] = field(default_factory=list)
    """And whether it came late."""


class Model:
    def __init__(self, policy: GcPolicy, rules: Rules) -> None:
        self.policy = policy
        self.rules = rules
        self.epochs: dict[int, dict[int, Stored]] = {}
        """By epoch, what the owner has: that of the epoch before, as far as it was kept, too."""
        self.own: dict[int, set[int]] = defaultdict(set)
        """Numbers stored in the epoch itself."""
        self.dropped: list[tuple[int, int, int]] = []
        """Epoch, last number and time."""
        self.published: dict[tuple[int, int], Stored] = {}
        self.counts = Counts()
        self.oldest = 0

    def judge(self, rows: list[Row]) -> None:
        places: dict[tuple[int, int], Place] = {}
        current: dict[int, int] = {}
        newest = rows[0].time if rows else 0
        for row in rows:
            self.counts.clock += row.time < newest - self.rules.clock_tolerance_ns
            newest = max(newest, row.time)
            self._follow(row, places, current)
        for (_, epoch), place in places.items():
            self._judge_place(epoch, place)

    def _follow(
        self, row: Row, places: dict[tuple[int, int], Place], current: dict[int, int]
    ) -> None:
        where = row.subscription, row.epoch
        if row.kind in (Kind.OPENED, Kind.RESET):
            place = places.setdefault(where, Place(row.first, row.first - 1))
            current[row.subscription] = row.epoch
            if row.first > place.reached + 1:
                gone = Row(Kind.TOMBSTONES, *where, place.reached + 1, row.first - 1, row.time)
                place.rows.append((gone, False))
                place.reached = row.first - 1
        elif row.kind == Kind.CLOSED:
            place = places[row.subscription, current[row.subscription]]
            place.closed = row.time
            place.reached = max(place.reached, row.last)
        else:
            known = current.get(row.subscription) == row.epoch
            place = places.setdefault(where, Place(row.first, row.first - 1))
            place.rows.append((row, not known or row.first <= place.reached))
            place.reached = max(place.reached, row.last)

    def stored_in(self, epoch: int) -> dict[int, Stored]:
        """An epoch in which nothing was stored has what the one before had."""
        return self.epochs[max(known for known in self.epochs if known <= epoch)]

    def _judge_place(self, epoch: int, place: Place) -> None:
        stored = self.stored_in(epoch)
        counts, tolerance = self.counts, self.rules.clock_tolerance_ns
        covered: Counter[int] = Counter()
        delivered, forged, buried = set(), set(), {}
        for row, late in place.rows:
            numbers = range(row.first, row.last + 1)
            counts.out_of_order += late and any(not covered[seq] for seq in numbers)
            covered.update(numbers)
            if row.kind == Kind.TOMBSTONES:
                for seq in numbers:
                    buried.setdefault(seq, row.time)
            elif self._is_true(stored, row):
                delivered.update(numbers)
                ages = [row.time - stored[seq].time for seq in numbers]
                counts.clock += min(ages) < -tolerance
                self.oldest = max(self.oldest, *ages)
            else:
                forged.update(numbers)
        counts.delivered += len(delivered)
        counts.forged += len(forged)
        counts.duplicated += sum(covered.values()) - len(covered)
        for seq, time in buried.items():
            if seq not in delivered:
                verdict = self._verdict(epoch, seq, time + tolerance, place.reached)
                setattr(counts, verdict, getattr(counts, verdict) + 1)
        for seq, each in stored.items():
            in_time = place.closed is not None and self.own[epoch] and (
                each.time <= place.closed - self.rules.grace_ns
            )  # fmt: skip
            if seq >= place.first and (seq <= place.reached or in_time):
                counts.owed += 1
                counts.lost += not covered[seq]

    @staticmethod
    def _is_true(stored: dict[int, Stored], row: Row) -> bool:
        numbers = range(row.first, row.last + 1)
        if any(seq not in stored for seq in numbers):
            return False
        return sum(stored[seq].hashed for seq in numbers) % 2**64 == row.digest

    def _verdict(self, epoch: int, seq: int, time: int, reached: int) -> str:
        stored = self.stored_in(epoch)
        if seq not in stored:
            return "unmatched"
        if any(e <= epoch and last >= seq and when <= time for e, last, when in self.dropped):
            return "tombstoned"
        found = "unmatched"
        for other, each in stored.items():
            if other > seq and each.time <= time and self._collects(each.event, stored[seq].event):
                if other <= reached:
                    return "tombstoned"
                found = "pending"
        return found

    def _collects(self, later: Event, event: Event) -> bool:
        last_n = self.policy.last_n
        if last_n is not None and later.seq >= event.seq + last_n:
            return True
        own = predicate_of(later, self.policy)
        return own is not None and collects(own, event, self.policy)

    def judge_acked(self, publisher: int, first: int, last: int, row: tuple[int, int, int]) -> None:
        """`row`: the sum of contents, when it was sent, when it was acknowledged."""
        content, sent, acked = row
        numbers = [(publisher, number) for number in range(first, last + 1)]
        ends = [self.published.get(number) for number in (numbers[0], numbers[-1])]
        tolerance = self.rules.clock_tolerance_ns
        too_late = ends[0] is not None and sent > ends[0].time + tolerance
        too_early = ends[1] is not None and acked < ends[1].time - tolerance
        self.counts.clock += too_late or too_early
        self.counts.acked += len(numbers)
        missing = sum(number not in self.published for number in numbers)
        if missing:
            self.counts.acked_but_lost += missing
        elif sum(self.published[number].content for number in numbers) % 2**64 != content:
            self.counts.acked_but_lost += len(numbers)
