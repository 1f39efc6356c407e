"""The same findings, worked out one event at a time: slow, and easy to believe."""

from __future__ import annotations

from collections import Counter

from epicast_checker.format import Collects, Got
from tests.checker.runs import STREAMS, Event, Row, Run

Findings = dict[str, int]


class Side:
    """One subscriber of one stream."""

    def __init__(self, rows: list[Row]) -> None:
        self.found: Counter[str] = Counter()
        self.got: list[tuple[int, int, bytes]] = []
        self.epoch = self.first = self.high = 0
        self.closed = False
        self._begun = False
        self._seen: Counter[int] = Counter()
        self._session_high = 0
        self._expected = 0
        self._skipped: set[int] = set()
        for row in rows:
            self._take(row)
        self._settle()

    def _take(self, row: Row) -> None:
        if row.kind in (Got.OPENED, Got.RESET):
            self.found["resets"] += row.kind == Got.RESET
            self._begin(row.epoch, row.first)
        elif row.kind in (Got.CLOSED, Got.LEFT):
            self.closed = row.kind == Got.CLOSED
        else:
            if not self._begun:
                self._begin(row.epoch, row.first)
            elif row.epoch != self.epoch:
                self.found["unannounced"] += 1
                self._begin(row.epoch, row.first)
            self.closed = False
            for number in range(row.first, row.last + 1):
                self._number(number)
            if row.kind == Got.TOMBSTONES:
                self.found["tombstones"] += row.last - row.first + 1
            elif row.kind == Got.DATA:
                assert row.event is not None
                self.found["events"] += 1
                self.got.append((row.epoch, row.first, row.event.content))

    def _begin(self, epoch: int, first: int) -> None:
        self._settle()
        self.found["sessions"] += 1
        self._begun, self.closed = True, False
        self._expected = first
        if epoch != self.epoch:
            self.epoch, self.first, self.high = epoch, first, first - 1
        self.first = min(self.first, first)

    def _number(self, number: int) -> None:
        if number >= self._expected:
            self._skipped |= set(range(self._expected, number))
            self._expected = number + 1
        elif number in self._skipped:
            self._skipped.remove(number)
            self.found["reordered"] += 1
        else:
            self.found["duplicated"] += 1
        self.high = max(self.high, number)

    def _settle(self) -> None:
        self.found["holes"] += len(self._skipped)
        self._skipped = set()


def judged(run: Run) -> tuple[dict[str, Findings], dict[tuple[str, str], Findings]]:
    """What is found of streams, and of subscribers by name and stream."""
    of_streams: dict[str, Findings] = {}
    of_subscribers: dict[tuple[str, str], Findings] = {}
    for number, (name, collects) in STREAMS.items():
        sides = {}
        for who, rows in run.rows.items():
            mine = [row for row in rows if row.stream == number]
            if mine:
                sides[who] = Side(mine)
        of_streams[name] = _judge_stream(run.of(number), list(sides.values()), collects)
        for who, side in sides.items():
            of_subscribers[who, name] = dict(side.found)
    return of_streams, of_subscribers


def _judge_stream(events: list[Event], sides: list[Side], collects: Collects) -> Findings:
    found: Counter[str] = Counter()
    by_content = {event.content: event for event in events}
    newest = max((side.epoch for side in sides), default=0)
    numbers: dict[bytes, set[int]] = {}
    for side in sides:
        for epoch, seq, content in side.got:
            if content not in by_content:
                side.found["forged"] += 1
            elif epoch == newest:
                numbers.setdefault(content, set()).add(seq)
    found["numbered_twice"] = sum(len(seqs) > 1 for seqs in numbers.values())
    numbered = {content: min(seqs) for content, seqs in numbers.items()}
    found["sent"] = len(events)
    found["acked"] = sum(event.acked_ms is not None for event in events)
    highest: dict[int, int] = {}
    for event in sorted(events, key=lambda event: event.number):
        seq = numbered.get(event.content)
        if seq is not None:
            found["misordered"] += seq < highest.get(event.publisher, 0)
            highest[event.publisher] = max(highest.get(event.publisher, 0), seq)
    has: set[bytes] = set()
    missed: set[bytes] = set()
    for side in sides:
        if collects is Collects.NOTHING:
            side.found["buried"] = side.found["tombstones"]
        own = {c for epoch, seq, c in side.got if epoch == side.epoch or seq < side.first}
        has |= own & by_content.keys()
        if side.epoch == newest:
            places = numbered
        else:
            places = {}
        latest: dict[bytes, int] = {}
        known = (
            numbered.items()
            if side.epoch == newest
            else [(c, s) for e, s, c in side.got if e == side.epoch and c in by_content]
        )
        for content, seq in known:
            key = by_content[content].key
            latest[key] = max(latest.get(key, 0), seq)
        for event in events:
            if event.acked_ms is not None and event.content not in own:
                verdict = _verdict(event, side, places.get(event.content), latest, collects)
                side.found[verdict] += 1
                if verdict == "never_delivered":
                    missed.add(event.content)
    found["lost"] = len(missed - has) + min((_not_buried(side) for side in sides), default=0)
    return dict(found)


def _not_buried(side: Side) -> int:
    """Events that cannot be collected because there is no tombstone left for them."""
    found = side.found
    tombstones, rest = found["tombstones"], 0
    for verdict in ("undecided", "collected"):
        beyond = max(0, found[verdict] - tombstones)
        tombstones -= found[verdict] - beyond
        found[verdict] -= beyond
        rest += beyond
    if side.first > 1 or found["resets"]:
        found["undecided"] += rest
        return 0
    found["never_delivered"] += rest
    return rest


def _verdict(
    event: Event, side: Side, seq: int | None, latest: dict[bytes, int], collects: Collects
) -> str:
    bound = seq if seq is not None else (event.bound or event.seq)
    comparable = seq is not None or event.epoch == side.epoch
    if comparable and bound < side.first:
        return "not owed"
    if not side.closed and not (comparable and bound <= side.high):
        return "not owed"
    can_be_collected = side.found["tombstones"] > 0 and collects is not Collects.NOTHING
    if can_be_collected and event.key:
        successor = latest.get(event.key, 0)
        if comparable and successor > bound:
            return "collected"
        if seq is None and successor:
            return "undecided"
    if seq is None and side.first > 1:
        return "undecided"
    return "never_delivered"
