"""Columns of bronze against a conversion that looks at every event; ranges against numbers."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast import EventBatch, Reset, Watermark
from epicast.pipeline.lake.columns import joined, rows_for_spark, rows_of
from epicast.pipeline.lake.errors import LakeOptionError, SourceAway, WrongLake
from epicast.pipeline.lake.offsets import Offsets, parse_starting
from epicast.pipeline.lake.ranges import BEGINNING, Range, cut, read_range
from epicast.pipeline.lake.schema import bronze_schema

STREAM = 5
EPOCH = 3
START = datetime(1970, 1, 1, tzinfo=UTC)
KIND_NAMES = {0: "event", 1: "gc"}


def rows_one_by_one(batch: EventBatch | Reset) -> list[dict[str, Any]]:
    if isinstance(batch, Reset):
        epoch, seq = batch.watermark
        return [row(epoch, seq, seq, "reset", None, None, None)]
    events = {event.seq: event for event in batch.events()}
    rows, number = [], batch.first
    while number <= batch.last:
        event = events.get(number)
        if event is not None:
            time = START + timedelta(microseconds=event.time // 1000)
            kind = KIND_NAMES[event.kind]
            rows.append(row(batch.epoch, number, number, kind, time, event.key, event.payload))
            number += 1
            continue
        end = number
        while end < batch.last and end + 1 not in events:
            end += 1
        rows.append(row(batch.epoch, number, end, "tombstone", None, None, None))
        number = end + 1
    return rows


def row(
    epoch: int, seq: int, last: int, kind: str, time: datetime | None, key: Any, payload: Any
) -> dict[str, Any]:
    return {"epoch": epoch, "seq": seq, "last": last, "kind": kind, "time": time, "key": key,
            "payload": payload}  # fmt: skip


@st.composite
def batches(draw: st.DrawFn) -> EventBatch:
    """Some numbers missing or none; lengths all alike or not; one time or many; or a slice."""
    first = draw(st.integers(1, 1000))
    span = draw(st.integers(1, 12))
    covered = range(first, first + span)
    there = draw(st.one_of(st.just(list(covered)), st.lists(st.sampled_from(covered), unique=True)))
    seqs = sorted(there)
    text = st.one_of(st.binary(max_size=5), st.binary(min_size=3, max_size=3), st.just(b""))
    alike = draw(st.booleans())
    keys = [draw(text)] * len(seqs) if alike else [draw(text) for _ in seqs]
    payloads = [draw(text)] * len(seqs) if alike else [draw(text) for _ in seqs]
    times = st.integers(0, 2_000_000_000_000_000_000)
    time = draw(times) if draw(st.booleans()) else [draw(times) for _ in seqs]
    kinds = [draw(st.integers(0, 1)) for _ in seqs] if draw(st.booleans()) else None
    if not seqs and not isinstance(time, int):
        time = 0
    batch = EventBatch.build(
        STREAM, first, payloads, keys=keys, time=time, kinds=kinds, seqs=seqs,
        last=covered[-1], epoch=EPOCH,
    )  # fmt: skip
    low = draw(st.sampled_from(covered))
    return batch.slice(low, draw(st.integers(low, covered[-1])))


@given(batches())
def test_columns_are_the_events(batch: EventBatch) -> None:
    rows = rows_of(batch)
    rows.validate(full=True)
    assert rows.to_pylist() == rows_one_by_one(batch)


@given(batches())
def test_spark_gets_the_same_with_the_name_of_the_stream(batch: EventBatch) -> None:
    rows = rows_for_spark(batch, "prices")
    assert rows.schema == bronze_schema()
    expected = [{"stream": "prices", **row} for row in rows_one_by_one(batch)]
    assert rows.to_pylist() == expected


def test_events_that_are_all_alike_stay_where_they_are() -> None:
    data = b"0123456789" * 4
    rows = rows_of(EventBatch.even(STREAM, 1, data, 10, 0))
    assert rows["key"].to_pylist() == [b"0123456789"] * 4
    assert rows["payload"].to_pylist() == [b""] * 4
    assert rows["key"].buffers()[2].address == pa.py_buffer(data).address


def test_a_reset_is_a_row() -> None:
    reset = Reset(STREAM, Watermark(4, 17))
    assert rows_of(reset).to_pylist() == rows_one_by_one(reset)


def numbered(first: int, last: int, epoch: int = EPOCH) -> EventBatch:
    payloads = [b"%d" % number for number in range(first, last + 1)]
    return EventBatch.build(STREAM, first, payloads, epoch=epoch)


@given(st.lists(batches(), max_size=6))
def test_joining_changes_no_row(found: list[EventBatch]) -> None:
    stream: list[EventBatch | Reset] = [*found, Reset(STREAM, Watermark(9, 1)), *found]
    together = [row for batch in joined(stream) for row in rows_one_by_one(batch)]
    assert together == [row for batch in stream for row in rows_one_by_one(batch)]


def test_small_batches_that_follow_each_other_become_one() -> None:
    found = list(joined([numbered(1, 3), numbered(4, 4), numbered(5, 9), numbered(20, 21)]))
    assert [(batch.first, batch.last) for batch in found] == [(1, 9), (20, 21)]  # type: ignore[union-attr]


places = st.integers(1, 300)


@given(st.booleans(), places, places, st.integers(1, 9))
def test_parts_of_a_range_follow_each_other(new: bool, low: int, more: int, parts: int) -> None:
    after = BEGINNING if new else Watermark(EPOCH, low)
    whole = Range("s", after, Watermark(EPOCH, after.seq + more))
    pieces = whole.split(parts)
    assert len(pieces) == min(parts, more)
    assert (pieces[0].after, pieces[-1].end) == (whole.after, whole.end)
    assert all(a.end == b.after for a, b in itertools.pairwise(pieces))
    assert max(p.events for p in pieces) - min(p.events for p in pieces) <= 1


def test_what_crosses_epochs_stays_whole_and_small_ranges_stay_alone() -> None:
    crossing = Range("s", Watermark(1, 500), Watermark(2, 1000))
    small = Range("t", Watermark(1, 0), Watermark(1, 10))
    large = Range("u", Watermark(1, 0), Watermark(1, 1000))
    found = cut([crossing, small, large], 4, 100)
    assert [piece.stream for piece in found] == ["s", "t", "u", "u"]


class Given:
    """A subscription that gives what it was given."""

    def __init__(self, *batches: EventBatch | Reset) -> None:
        self._batches = list(batches)

    def next_batch(self, timeout: float | None = None) -> EventBatch | Reset | None:
        return self._batches.pop(0) if self._batches else None


def read(after: tuple[int, int], end: tuple[int, int], *batches: EventBatch | Reset) -> list[Any]:
    wanted = Range("s", Watermark(*after), Watermark(*end))
    return [
        ("reset", *batch.watermark)
        if isinstance(batch, Reset)
        else (batch.epoch, batch.first, batch.last)
        for batch in read_range(Given(*batches), wanted, 0.01)
    ]


def reset(epoch: int, seq: int) -> Reset:
    return Reset(STREAM, Watermark(epoch, seq))


def test_a_range_ends_where_it_was_said_to_end() -> None:
    assert read((3, 4), (3, 8), numbered(5, 6), numbered(7, 20)) == [(3, 5, 6), (3, 7, 8)]


def test_what_retention_has_dropped_is_a_reset_inside_the_range() -> None:
    assert read((3, 4), (3, 20), reset(3, 10), numbered(11, 30)) == [
        ("reset", 3, 10), (3, 11, 20)
    ]  # fmt: skip
    assert read((3, 4), (3, 20), reset(3, 99)) == [("reset", 3, 20)]


def test_an_epoch_that_is_over_ends_its_ranges() -> None:
    assert read((3, 4), (3, 20), numbered(5, 6), reset(4, 0)) == [(3, 5, 6)]
    assert read((0, 0), (3, 20), numbered(1, 9, epoch=4)) == []


def test_the_range_that_leads_into_a_new_epoch_has_the_reset() -> None:
    found = read((3, 4), (4, 2), numbered(5, 6), reset(4, 0), numbered(1, 9, epoch=4))
    assert found == [(3, 5, 6), ("reset", 4, 0), (4, 1, 2)]
    # Nothing of epoch 3 was read: a subscription from the beginning does not mention it.
    assert read((3, 0), (4, 2), numbered(1, 9, epoch=4)) == [("reset", 4, 0), (4, 1, 2)]


def test_silence_is_an_error_and_not_an_end() -> None:
    with pytest.raises(SourceAway, match="at 3:6 of 3:20; is the proxy up"):
        read((3, 4), (3, 20), numbered(5, 6))


def test_offsets_never_go_backwards() -> None:
    at = Offsets("g", {"a": Watermark(2, 50), "b": Watermark(2, 5), "c": BEGINNING})
    heads = {"a": Watermark(2, 40), "b": Watermark(3, 1), "c": Watermark(7, 0)}
    assert at.advanced(heads).places == {
        "a": Watermark(2, 50), "b": Watermark(3, 1), "c": BEGINNING
    }  # fmt: skip


def test_a_limit_gives_each_stream_its_share() -> None:
    at = Offsets("g", {"a": BEGINNING, "b": Watermark(2, 5), "c": Watermark(1, 9)})
    end = Offsets("g", {"a": Watermark(2, 900), "b": Watermark(2, 105), "c": Watermark(1, 9)})
    assert at.limited(end, 100).places == {
        "a": Watermark(2, 90), "b": Watermark(2, 15), "c": Watermark(1, 9)
    }  # fmt: skip
    assert at.limited(end, 1000).places == end.places


def test_offsets_say_whose_they_are() -> None:
    offsets = Offsets.from_json(Offsets("g", {"a": Watermark(1, 2)}).to_json())
    assert (offsets.geoplex, offsets.places) == ("g", {"a": Watermark(1, 2)})
    with pytest.raises(WrongLake, match="of geoplex 'g', the proxy belongs to 'h'"):
        offsets.check("h", ["a"])
    with pytest.raises(WrongLake, match="the checkpoint is of a, the query reads b"):
        offsets.check("g", ["b"])
    with pytest.raises(WrongLake, match="not one of Epicast's source"):
        Offsets.from_json({"topic": {"0": 17}})


def test_where_to_start() -> None:
    assert parse_starting("latest", ["a"]) is None
    assert parse_starting("earliest", ["a"]) == {"a": BEGINNING}
    assert parse_starting('{"a": [3, 4]}', ["a"]) == {"a": Watermark(3, 4)}
    with pytest.raises(LakeOptionError, match="neither earliest, latest, nor JSON"):
        parse_starting("yesterday", ["a"])
    with pytest.raises(LakeOptionError, match="names b, the query reads a"):
        parse_starting('{"b": [3, 4]}', ["a"])
