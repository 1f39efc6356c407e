"""`format("epicast")` on a real proxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epicast.geo.local import LocalGeoplex
from epicast.pipeline.lake.driver import explained
from epicast.pipeline.lake.source import register
from tests.pipeline.lake_support import one_region, publish

STREAMS = ("batch", "streamed", "other", "latest", "lost", "empty")


@pytest.fixture(scope="module")
def local() -> Iterator[LocalGeoplex]:
    """In memory: a proxy that is killed begins a new epoch."""
    with LocalGeoplex(one_region(STREAMS, None), any_ports=True) as local:
        yield local


@pytest.fixture
def reading(spark: Any, local: LocalGeoplex) -> Any:
    """`reading("a,b", option=…)` is a streaming reader, about to be loaded."""
    register(spark)

    def make(streams: str, *, stream: bool = True, **options: Any) -> Any:
        reader = (spark.readStream if stream else spark.read).format("epicast")
        reader = reader.option("proxy", local.address("us")).option("streams", streams)
        for name, value in {"patience": 5, **options}.items():
            reader = reader.option(name, str(value))
        return reader

    return make


def run(frame: Any, checkpoint: Path) -> list[list[Any]]:
    """All there is, a list of rows per batch."""
    found: list[list[Any]] = []
    writer = frame.writeStream.foreachBatch(lambda rows, _: found.append(rows.collect()))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return found


def numbers(batches: list[list[Any]], stream: str) -> list[int]:
    return [row.seq for rows in batches for row in rows if row.stream == stream]


def test_a_batch_read_is_what_there_is(reading: Any, local: LocalGeoplex) -> None:
    publish(local.address("us"), "batch", 1200)
    rows = reading("batch,empty", stream=False).load().orderBy("seq").collect()
    assert [row.seq for row in rows] == list(range(1, 1201))
    first = rows[0]
    assert (first.stream, first.last, first.kind, first.key) == ("batch", 1, "event", b"k0")
    assert first.payload == b"1"
    assert first.epoch > 0 and first.time.year > 2000


def test_a_query_goes_on_where_it_was_in_batches_of_limited_size(
    reading: Any, local: LocalGeoplex, tmp_path: Path
) -> None:
    address = local.address("us")
    publish(address, "streamed", 1000)
    publish(address, "other", 100)
    reader = reading("streamed,other", maxEventsPerTrigger=550)
    first = run(reader.load(), tmp_path)
    assert [len(rows) for rows in first] == [550, 550]
    publish(address, "streamed", 30)
    second = run(reader.load(), tmp_path)
    assert sorted(numbers(first, "streamed")) == list(range(1, 1001))
    assert numbers(second, "streamed") == list(range(1001, 1031))
    assert sorted(numbers([*first, *second], "other")) == list(range(1, 101))


def test_latest_leaves_out_what_was_before(
    reading: Any, local: LocalGeoplex, tmp_path: Path
) -> None:
    publish(local.address("us"), "latest", 10)
    reader = reading("latest", startingOffsets="latest")
    assert numbers(run(reader.load(), tmp_path), "latest") == []
    publish(local.address("us"), "latest", 3)
    assert numbers(run(reader.load(), tmp_path), "latest") == [11, 12, 13]


@pytest.mark.parametrize(
    ("streams", "options", "sentence"),
    [
        ("", {}, "streams: name at least one stream"),
        ("batch", {"maxEventsPerTrigger": "many"}, "'many' is not a whole number"),
        ("batch", {"startingOffsets": "then"}, "neither earliest, latest, nor JSON"),
        ("nonsense", {}, "no stream 'nonsense'"),
        ("batch", {"proxy": "127.0.0.1:1", "patience": 0}, "no proxy at 127.0.0.1:1"),
    ],
)
def test_wrong_options_are_a_sentence(
    reading: Any, tmp_path: Path, streams: str, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(Exception) as caught:
        run(reading(streams, **options).load(), tmp_path)
    failure = explained(caught.value)
    assert sentence in failure.error
    assert failure.final == ("proxy" not in options)


def test_a_checkpoint_of_other_streams_is_refused(
    reading: Any, local: LocalGeoplex, tmp_path: Path
) -> None:
    publish(local.address("us"), "other", 5)
    run(reading("other").load(), tmp_path)
    with pytest.raises(Exception) as caught:
        run(reading("batch").load(), tmp_path)
    assert explained(caught.value).error == (
        "the checkpoint is of other, the query reads batch: read the same streams, or name "
        "another folder for the checkpoint"
    )


def test_an_owner_that_lost_everything_begins_a_new_epoch(
    reading: Any, local: LocalGeoplex, tmp_path: Path
) -> None:
    address = local.address("us")
    publish(address, "lost", 40)
    first = run(reading("lost").load(), tmp_path)
    local.kill("us")
    local.start("us")
    publish(address, "lost", 6)
    second = [row for rows in run(reading("lost").load(), tmp_path) for row in rows]
    assert numbers(first, "lost") == list(range(1, 41))
    assert [(row.kind, row.seq) for row in second] == [
        ("reset", 0), *(("event", number) for number in range(1, 7))
    ]  # fmt: skip
    assert {row.epoch for row in second}.isdisjoint({row.epoch for rows in first for row in rows})
