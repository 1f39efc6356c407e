"""Logs damaged at random, judged by the checker and one event at a time."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from random import Random

import pytest

from epicast_checker import check
from epicast_checker.format import Got
from tests.checker.model import judged
from tests.checker.runs import Row, Run, perfect

OF_STREAMS = ("sent", "acked", "lost", "numbered_twice", "misordered")
OF_SUBSCRIBERS = (
    "events", "tombstones", "sessions", "resets", "holes", "duplicated", "reordered",
    "unannounced", "forged", "buried", "never_delivered", "collected", "undecided",
)  # fmt: skip


def damaged(rng: Random) -> Run:
    run = perfect(rng, events=rng.randrange(30, 160), subscribers=rng.randrange(1, 5))
    for event in run.events:
        if rng.random() < 0.05:
            event.acked_ms = None
        elif rng.random() < 0.1:
            event.bound = event.seq + rng.randrange(5)
    for name, rows in run.rows.items():
        for _ in range(rng.randrange(6)):
            _damage(rng, run, rows)
        if rng.random() < 0.3:  # it crashed
            keep = rng.randrange(len(rows))
            run.rows[name] = rows[:keep]
        if rng.random() < 0.2:
            _begin_anew(rng, rows)
    run.rows = {name: rows for name, rows in run.rows.items() if rows}
    return run


def _damage(rng: Random, run: Run, rows: list[Row]) -> None:
    at = rng.randrange(len(rows))
    row = rows[at]
    match rng.randrange(8):
        case 0 if row.kind == Got.DATA:
            del rows[at]
        case 1 if row.kind in (Got.DATA, Got.TOMBSTONES):
            rows.insert(min(len(rows), at + rng.randrange(20)), row)
        case 2:
            other = rng.randrange(len(rows))
            if Got.DATA == row.kind == rows[other].kind:
                rows[at], rows[other] = rows[other], row
        case 3 if row.kind == Got.DATA:
            assert row.event is not None
            rows[at] = replace(row, event=replace(row.event, payload=b"forged %d" % at))
        case 4 if row.kind == Got.DATA:
            rows[at] = replace(row, event=rng.choice(run.of(row.stream)))
        case 5 if row.kind == Got.DATA:
            rows[at] = replace(row, kind=Got.TOMBSTONES, event=None)
        case 6 if row.kind == Got.DATA:
            first = max(1, row.first - rng.randrange(5))
            rows.insert(at, Row(Got.OPENED, row.stream, row.epoch, first, first, row.ms))
        case 7 if row.kind == Got.DATA:
            rows[at] = replace(row, kind=Got.GC, event=None)


def _begin_anew(rng: Random, rows: list[Row]) -> None:
    """From somewhere on, one stream is in a later epoch."""
    stream = rng.choice((1, 2))
    mine = [row for row in rows if row.stream == stream and row.kind == Got.DATA]
    if not mine:
        return
    start = rng.choice(mine)
    at = rows.index(start)
    if rng.random() < 0.7:
        rows.insert(at, Row(Got.RESET, stream, 2, start.first, start.first, start.ms))
        at += 1
    for index in range(at, len(rows)):
        if rows[index].stream == stream:
            rows[index] = replace(rows[index], epoch=2)


@pytest.mark.parametrize("seed", range(150))
def test_the_checker_agrees_with_the_model(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    run = damaged(rng)
    run.write(tmp_path, rng)
    report = check(tmp_path, events_per_file=rng.choice((7, 60, 10_000)))
    of_streams, of_subscribers = judged(run)
    for stream in report.streams:
        expected = of_streams[stream.stream]
        assert {name: asdict(stream)[name] for name in OF_STREAMS} == {
            name: expected.get(name, 0) for name in OF_STREAMS
        }
    assert len(report.subscribers) == len(of_subscribers)
    for side in report.subscribers:
        expected = of_subscribers[side.subscriber, side.stream]
        assert {name: asdict(side)[name] for name in OF_SUBSCRIBERS} == {
            name: expected.get(name, 0) for name in OF_SUBSCRIBERS
        }, (side.subscriber, side.stream)


def test_all_kinds_of_findings_occur() -> None:
    """Or the comparison would compare nothing with nothing."""
    occurred: set[str] = set()
    for seed in range(150):
        for found in (side for part in judged(damaged(Random(seed))) for side in part.values()):
            occurred |= {name for name, count in found.items() if count}
    assert occurred >= {*OF_STREAMS, *OF_SUBSCRIBERS}
