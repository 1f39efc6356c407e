"""silver against a dictionary, against the real history, and across epochs."""

from pathlib import Path
from typing import Any

import pytest

from epicast import Watermark
from epicast.log import GcPolicy
from epicast.pipeline.lake.collecting import gc_events_of, rules_of
from epicast.pipeline.lake.layout import LakeStream
from epicast.pipeline.lake.schema import BRONZE_SPARK
from epicast.pipeline.lake.silver import (
    SILVER_SPARK,
    current_values,
    read_silver,
    silver_table,
    update_silver,
)
from tests.pipeline.lake_events import (
    Row,
    event,
    gc,
    history,
    ingest,
    live_events,
    new_lake,
    policy_of,
    random_rows,
    reset,
    table,
    tombstone,
)

LATEST = LakeStream("latest", 1, latest_per_key=True)
PLAIN = LakeStream("plain", 2)
RECENT = LakeStream("recent", 3, last_n=25)


def values(frame: Any) -> dict[str, dict[bytes, tuple[int, bytes]]]:
    found: dict[str, dict[bytes, tuple[int, bytes]]] = {}
    for row in frame.collect():
        key = bytes(row.key)
        assert key not in found.setdefault(row.stream, {})
        found[row.stream][key] = (row.seq, bytes(row.payload))
    return found


def as_bronze(spark: Any, stream: str, rows: list[Row]) -> Any:
    arrow = table(rows).to_pylist()
    return spark.createDataFrame([{"stream": stream, **row} for row in arrow], BRONZE_SPARK)


def live_values(rows: list[Row], policy: GcPolicy) -> dict[bytes, tuple[int, bytes]]:
    live = live_events(history(rows, policy))
    return {e.key: (e.seq, e.payload) for e in live if e.key and not e.kind}


def test_new_values_replace_old_ones(spark: Any) -> None:
    old = spark.createDataFrame(
        [("latest", 0, b"a", 1, None, b"1"), ("latest", 0, b"b", 2, None, b"2")], SILVER_SPARK
    )
    news = [event(3, b"a", b"3"), gc(4, 'key == "b"'), event(5, b"", b"5"), event(6, b"c", b"6")]
    rules = rules_of(0, GcPolicy(latest_per_key=True), gc_events_of(table(news)), 6)
    found = current_values(old, as_bronze(spark, "latest", news), {"latest": rules}, 2)
    assert found.schema.simpleString().replace("bigint", "long") == (
        "struct<stream:string,epoch:long,key:binary,seq:long,time:timestamp,payload:binary>"
    )
    assert values(found) == {"latest": {b"a": (3, b"3"), b"c": (6, b"6")}}


def test_silver_follows_the_histories(spark: Any, tmp_path: Path) -> None:
    """In several steps, with GC events of all sorts, every stream has what its owner has."""
    lake = new_lake(tmp_path / "lake", LATEST, PLAIN, RECENT)
    streams = {
        stream.name: random_rows(seed, 160, policy_of(stream))
        for seed, stream in enumerate((LATEST, PLAIN, RECENT))
    }
    done = 0
    for batch, upto in enumerate((40, 41, 100, 160)):
        ingest(lake, batch, **{name: rows[done:upto] for name, rows in streams.items()})
        done = upto
        if upto == 41:
            continue  # two commits at once
        assert sorted(update_silver(spark, lake)) == sorted(streams)
        found = values(read_silver(spark, lake))
        for stream in (LATEST, PLAIN, RECENT):
            expected = live_values(streams[stream.name][:upto], policy_of(stream))
            assert found.get(stream.name, {}) == expected, (stream.name, upto)
    assert update_silver(spark, lake) == []
    assert silver_table(lake).snapshot().watermarks["plain"] == Watermark(0, 160)


def test_a_dictionary_says_the_same(spark: Any, tmp_path: Path) -> None:
    """The dumbest model there is: set on event, delete on GC event, forget on reset."""
    lake = new_lake(tmp_path / "lake", LATEST)
    rows = [event(n, b"k%d" % (n * 7 % 23), b"%d" % n) for n in range(1, 200)]
    for at in (50, 120, 199):
        rows[at - 1] = gc(at, f'key == "k{at % 23}"')
    model: dict[bytes, tuple[int, bytes]] = {}
    for batch in range(2):
        part = rows[batch * 100 : batch * 100 + 100]
        for row in part:
            if row["kind"] == "gc":
                model.pop(b"k%d" % (row["seq"] % 23), None)
            else:
                model[row["key"]] = (row["seq"], row["payload"])
        ingest(lake, batch, latest=part)
        update_silver(spark, lake)
        assert values(read_silver(spark, lake)) == {"latest": model}


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_an_epoch_begins_with_nothing(spark: Any, tmp_path: Path, kind: str) -> None:
    lake = new_lake(tmp_path / "lake", LATEST, kind=kind)
    ingest(lake, 0, latest=[event(1, b"a", b"1"), event(2, b"b", b"2"), event(3, b"c", b"3")])
    update_silver(spark, lake)
    ingest(lake, 1, latest=[event(4, b"d", b"4"), reset(2, 1), event(2, b"c", b"new", epoch=2)])
    update_silver(spark, lake)
    assert values(read_silver(spark, lake)) == {"latest": {b"c": (2, b"new")}}
    # Retention dropped 3..7 before the lake got there: what they did to older keys nobody knows.
    ingest(lake, 2, latest=[reset(2, 7), tombstone(8, 9, 2), event(10, b"e", b"10", epoch=2)])
    update_silver(spark, lake)
    assert values(read_silver(spark, lake)) == {"latest": {b"e": (10, b"10")}}
    assert silver_table(lake).snapshot().watermarks == {"latest": Watermark(2, 10)}


def test_an_older_value_comes_back_only_if_the_stream_still_has_it(
    spark: Any, tmp_path: Path
) -> None:
    """A GC event by size may spare the older event of a key: it is that stream's current value."""
    lake = new_lake(tmp_path / "lake", PLAIN)
    ingest(lake, 0, plain=[event(1, b"a", b"long enough"), event(2, b"a", b"x")])
    update_silver(spark, lake)
    assert values(read_silver(spark, lake)) == {"plain": {b"a": (2, b"x")}}
    ingest(lake, 1, plain=[gc(3, "size < 5")])
    update_silver(spark, lake)
    assert values(read_silver(spark, lake)) == {"plain": {b"a": (1, b"long enough")}}
    ingest(lake, 2, plain=[gc(4, 'key == "a"')])
    update_silver(spark, lake)
    assert values(read_silver(spark, lake)) == {}
