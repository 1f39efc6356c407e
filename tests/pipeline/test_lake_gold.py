"""Counts of minutes: right, and not changed by compaction."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from epicast.pipeline.lake.compaction import compact
from epicast.pipeline.lake.gold import (
    GOLD_SPARK,
    counted_minutes,
    merged_minutes,
    read_minutes,
    readable,
    savings,
    update_gold,
)
from epicast.pipeline.lake.layout import LakeStream
from epicast.pipeline.lake.schema import BRONZE_SPARK
from epicast.pipeline.lake.silver import update_silver
from tests.pipeline.lake_events import event, gc, ingest, new_lake, table, tombstone

LATEST = LakeStream("latest", 1, latest_per_key=True)
MINUTE_US = 60_000_000
START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000


def at(minute: float) -> int:
    return START_US + int(minute * MINUTE_US)


def shown(minutes: Any) -> list[tuple[Any, ...]]:
    rows = minutes.orderBy("minute").collect()
    return [
        (
            row.minute.replace(tzinfo=UTC),
            row.events,
            row.gc_events,
            row.bytes,
            row.tombstones,
            row.keys,
        )
        for row in rows
    ]


def test_minutes_are_counted_and_merged(spark: Any) -> None:
    first = [event(1, b"a", b"123", at_us=at(0)), event(2, b"b", b"1", at_us=at(0.5)),
             tombstone(3, 7), event(8, b"a", b"12", at_us=at(1.5))]  # fmt: skip
    second = [event(9, b"c", b"1", at_us=at(1.9)), tombstone(10, 10), gc(11, 'key == "a"')]
    nothing = spark.createDataFrame([], GOLD_SPARK)

    def bronze(rows: list[Any], committed: float) -> Any:
        found = [{"stream": "s", **row, "committed": committed} for row in table(rows).to_pylist()]
        return spark.createDataFrame(found, f"{BRONZE_SPARK}, committed double")

    known = merged_minutes(nothing, counted_minutes(bronze(first, at(2) / 1e6), nothing))
    assert shown(readable(known)) == [
        (START, 2, 0, 6, 5, 2),
        (START + timedelta(minutes=1), 1, 0, 3, 0, 1),
    ]
    lags = readable(known).orderBy("minute").select("lag_50_ms", "lag_99_ms").collect()
    assert [tuple(row) for row in lags] == [(90_000, 120_000), (30_000, 30_000)]
    both = merged_minutes(known, counted_minutes(bronze(second[:2], at(3) / 1e6), known))
    assert shown(readable(both))[1] == (START + timedelta(minutes=1), 2, 0, 5, 1, 2)
    only_graves = counted_minutes(bronze([tombstone(1, 4)], at(5) / 1e6), nothing)
    assert shown(readable(only_graves)) == [(START + timedelta(minutes=5), 0, 0, 0, 4, 0)]


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_what_was_counted_is_not_counted_again(spark: Any, tmp_path: Path, kind: str) -> None:
    lake = new_lake(tmp_path / "lake", LATEST, kind=kind)
    ingest(lake, 0, latest=[event(n, b"a", b"x", at_us=at(n)) for n in range(3)])
    assert update_gold(spark, lake) == ["latest"]
    assert update_gold(spark, lake) == []
    update_silver(spark, lake)
    compact(spark, lake)
    ingest(lake, 1, latest=[event(3, b"b", b"x", at_us=at(2.5))])
    update_gold(spark, lake)
    minutes = shown(read_minutes(spark, lake))
    assert [(row[1], row[4], row[5]) for row in minutes] == [(1, 0, 1), (1, 0, 1), (2, 0, 2)]
    lags = [row.lag_50_ms for row in read_minutes(spark, lake).collect()]
    assert all(lag is not None and lag >= 0 for lag in lags)
    update_silver(spark, lake)
    (saved,) = savings(spark, lake).collect()
    assert tuple(saved) == ("latest", 4, 2, 2, 0.5)
