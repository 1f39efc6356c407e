"""Runs of an imagined system, kept as plain lists: to be damaged, and to be written as logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from epicast_checker import PublisherLog, SubscriberLog, hash_bytes
from epicast_checker.format import Collects, Got

STREAMS = {1: ("orders", Collects.NOTHING), 2: ("prices", Collects.LATEST_PER_KEY)}
MS = 1_000_000


@dataclass
class Event:
    stream: int
    publisher: int
    number: int
    key: bytes
    payload: bytes
    sent_ms: int
    """Negative: nobody has written it down."""
    acked_ms: int | None
    seq: int
    """0: it is not in the stream."""
    bound: int = 0
    """What the acknowledgement says; 0: the number itself."""
    epoch: int = 1

    @property
    def content(self) -> bytes:
        return self.key + b"\0" + self.payload


@dataclass
class Row:
    """One of a subscriber's log. DATA has one event."""

    kind: Got
    stream: int
    epoch: int
    first: int
    last: int
    ms: int
    event: Event | None = None


@dataclass
class Run:
    events: list[Event] = field(default_factory=list)
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def of(self, stream: int) -> list[Event]:
        return [event for event in self.events if event.stream == stream]

    def write(self, folder: Path, rng: Random) -> None:
        """In rows of random lengths; each subscriber in one log or, cut anywhere, in two."""
        by_publisher: dict[int, list[Event]] = {}
        for event in self.events:
            by_publisher.setdefault(event.publisher, []).append(event)
        for publisher, events in by_publisher.items():
            log = PublisherLog(folder, f"p{publisher}", _streams())
            happened = [(event.sent_ms, 0, event) for event in events if event.sent_ms >= 0]
            happened += [(e.acked_ms, 1, e) for e in events if e.acked_ms is not None]
            for ms, what, event in sorted(happened, key=lambda each: (each[0], each[1])):
                contents = hash_bytes([event.content])
                keys = hash_bytes([event.key] if event.key else [])
                where = (event.stream, publisher, event.number, ms * MS, contents, keys)
                if what == 0:
                    log.sent(*where)
                else:
                    log.acked(*where, epoch=event.epoch, seq=event.bound or event.seq)
                if rng.random() < 0.1:
                    log.flush()
            log.close()
        for name, rows in self.rows.items():
            log = SubscriberLog(folder, name, _streams())
            for row in rows:
                _write_row(log, row)
                if rng.random() < 0.05:
                    log.flush()
                if rng.random() < 0.002:
                    log.close()
                    log = SubscriberLog(folder, name, _streams())
            log.close()


def _streams() -> dict[int, tuple[str, str]]:
    return {number: (name, str(collects)) for number, (name, collects) in STREAMS.items()}


def _write_row(log: SubscriberLog, row: Row) -> None:
    time = row.ms * MS
    match row.kind:
        case Got.OPENED:
            log.opened(row.stream, row.epoch, row.first, time)
        case Got.RESET:
            log.reset(row.stream, row.epoch, row.first, time)
        case Got.CLOSED:
            log.closed(row.stream, row.epoch, row.last, time)
        case Got.LEFT:
            log.left(row.stream, row.epoch, row.last, time)
        case Got.TOMBSTONES:
            log.tombstones(row.stream, row.epoch, row.first, row.last, time)
        case Got.GC:
            log.gc_events(row.stream, row.epoch, row.first, row.last, time)
        case Got.DATA:
            assert row.event is not None
            keys = hash_bytes([row.event.key] if row.event.key else [])
            contents = hash_bytes([row.event.content])
            log.events(row.stream, row.epoch, row.first, time, contents, keys)


def perfect(
    rng: Random, events: int = 200, publishers: int = 3, subscribers: int = 3, keys: int = 8
) -> Run:
    """Everything sent is acknowledged a few milliseconds later, and delivered in between.

    In `prices` the last subscriber reads history when all is published: obsolete events come as
    tombstones.
    """
    run = Run()
    numbers: dict[tuple[int, int], int] = {}
    heads = dict.fromkeys(STREAMS, 0)
    for at in range(events):
        stream, publisher = rng.choice((1, 2)), 100 + rng.randrange(publishers)
        number = numbers[stream, publisher] = numbers.get((stream, publisher), 0) + 1
        heads[stream] += 1
        run.events.append(
            Event(
                stream,
                publisher,
                number,
                b"k%d" % rng.randrange(keys) if stream == 2 else b"",
                b"%d:%d" % (publisher, number),
                10 * at,
                10 * at + 5,
                heads[stream],
            )
        )
    for index in range(subscribers):
        late = index == subscribers - 1
        name = f"s{index}"
        run.rows[name] = []
        for stream in STREAMS:
            run.rows[name] += delivered(run, stream, late=late, end_ms=10 * events)
        run.rows[name].sort(key=lambda row: row.ms)
    return run


def delivered(
    run: Run, stream: int, *, late: bool, end_ms: int, epoch: int = 1, begin: Got = Got.OPENED
) -> list[Row]:
    """What a subscriber without any trouble gets of a stream."""
    rows = [Row(begin, stream, epoch, 1, 1, end_ms if late else 0)]
    there = sorted(run.of(stream), key=lambda event: event.seq)
    latest = {event.key: event.seq for event in there}
    for event in there:
        ms = end_ms if late else event.sent_ms + 3
        if late and event.key and latest[event.key] > event.seq:
            rows.append(Row(Got.TOMBSTONES, stream, epoch, event.seq, event.seq, ms))
        else:
            rows.append(Row(Got.DATA, stream, epoch, event.seq, event.seq, ms, event))
    last = there[-1].seq if there else 0
    rows.append(Row(Got.CLOSED, stream, epoch, last, last, end_ms + 1))
    return rows
