"""gold: what happened in a stream, minute by minute, small enough to plot.

    update_gold(spark, lake)
    read_minutes(spark, lake)     # per stream and minute
    savings(spark, lake)          # per stream: what garbage collection saves

A minute is one of the owner's clock. Its row grows as bronze does: what has been counted is never
looked at again, so compaction changes nothing of it. Numbers of different keys and percentiles of
lags are kept as sketches, which can be merged, and are off by about a percent. Lag is from the
owner's time of an event to the commit that brought it into bronze.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from epicast.pipeline.lake.bronze_versions import bronze_versions
from epicast.pipeline.lake.schema import EVENT, GC, TOMBSTONE
from epicast.pipeline.lake.silver import behind, read_silver
from epicast.pipeline.lake.versions import Snapshot, StreamTable, open_table
from epicast.pipeline.lake.writing import by_stream, with_stream, write_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from epicast.pipeline.lake.layout import Lake

GOLD_SPARK = (
    "stream string, minute timestamp, seq long, events long, gc_events long, bytes long, "
    "tombstones long, keys_sketch binary, lags_sketch binary"
)
"""`seq` is the lowest number of the minute; the epoch does not matter here."""
GOLD_COLUMNS = [column.split()[0] for column in GOLD_SPARK.split(", ")]
LAG_PERCENTILES = (50, 90, 99)
_GRAVES_SPARK = "stream string, minute timestamp, seq long, tombstones long"


def gold_schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {"string": pa.string(), "timestamp": pa.timestamp("us", tz="UTC"), "long": pa.int64(),
             "binary": pa.binary()}  # fmt: skip
    columns = (column.split() for column in GOLD_SPARK.split(", "))
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in columns])


def gold_table(lake: Lake) -> StreamTable:
    return open_table(lake.gold, lake.table, gold_schema())


def update_gold(spark: SparkSession, lake: Lake) -> list[str]:
    """Count what is new in bronze; the streams that had news."""
    bronze = bronze_versions(lake).snapshot()
    table = gold_table(lake)
    before = table.snapshot()
    marks, since = bronze.news_since(before)
    changed = list(marks)
    if not changed:
        return []
    rows = lake.read_bronze(spark, bronze.paths(changed))
    news = with_commit_times(rows, bronze).where(behind(marks, since))
    old = [file for file in before.files if file.stream in changed]
    known = _read(spark, lake, before, changed)
    minutes = merged_minutes(known, counted_minutes(news, known))
    files = write_files(minutes.coalesce(1), lake.gold, lake.table, "gold")
    table.replace(before, old, files, watermarks={**before.watermarks, **marks})
    return changed


def read_minutes(spark: SparkSession, lake: Lake) -> DataFrame:
    """stream, minute, events, gc_events, bytes, tombstones, keys, lag_50_ms, lag_90_ms, …"""
    return readable(_read(spark, lake, gold_table(lake).snapshot()))


def readable(minutes: DataFrame) -> DataFrame:
    """With numbers in place of sketches."""
    from pyspark.sql import functions as f

    lags = [
        f.kll_sketch_get_quantile_bigint("lags_sketch", f.lit(p / 100)).alias(f"lag_{p}_ms")
        for p in LAG_PERCENTILES
    ]
    keys = f.hll_sketch_estimate("keys_sketch").alias("keys")
    counts = ["events", "gc_events", "bytes", "tombstones"]
    return minutes.select(
        "stream", "minute", *counts, f.coalesce(keys, f.lit(0)).alias("keys"), *lags
    )


def with_commit_times(rows: DataFrame, bronze: Snapshot) -> DataFrame:
    """With a column `committed`, null where compaction wrote the file."""
    from pyspark.sql import functions as f

    spark = rows.sparkSession
    times = [
        (file.stream, file.path.rpartition("/")[2], file.written)
        for file in bronze.files
        if not file.path.rpartition("/")[2].startswith("compact-")
    ]
    files = spark.createDataFrame(times, "stream string, file_name string, committed double")
    named = rows.select("*", f.col("_metadata.file_name").alias("file_name"))
    return named.join(f.broadcast(files), ["stream", "file_name"], "left").drop("file_name")


def counted_minutes(news: DataFrame, known: DataFrame) -> DataFrame:
    """Rows of bronze, with the time of their commit, as rows of gold besides those known."""
    from pyspark.sql import functions as f

    events = news.where(news.kind.isin(EVENT, GC))
    data, declared = f.col("kind") == EVENT, f.col("kind") == GC
    keyed = f.when(data & (f.octet_length("key") > 0), f.col("key"))
    size = f.coalesce(f.octet_length("key"), f.lit(0)) + f.octet_length("payload")
    lag_ms = (f.col("committed") * 1000).cast("long") - f.unix_millis("time")
    minute = f.date_trunc("minute", "time").alias("minute")
    counted = events.groupBy("stream", minute).agg(
        f.min("seq").alias("seq"),
        _total(data).alias("events"),
        _total(declared).alias("gc_events"),
        f.sum(size).cast("long").alias("bytes"),
        f.lit(0).cast("long").alias("tombstones"),
        f.hll_sketch_agg(keyed).alias("keys_sketch"),
        f.kll_sketch_agg_bigint(f.greatest(lag_ms, f.lit(0))).alias("lags_sketch"),
    )
    place = ["stream", "minute", "seq"]
    places = counted.select(place).unionByName(known.select(place)).toArrow()
    committed = f.date_trunc("minute", f.timestamp_seconds("committed")).alias("minute")
    graves = news.where(news.kind == TOMBSTONE).select("stream", "seq", "last", committed)
    buried = graves.mapInArrow(_Place(places), _GRAVES_SPARK)
    empty = [f.lit(None).cast("binary").alias(name) for name in ("keys_sketch", "lags_sketch")]
    nothing = [f.lit(0).cast("long").alias(name) for name in ("events", "gc_events", "bytes")]
    return counted.unionByName(buried.select("*", *nothing, *empty)).select(GOLD_COLUMNS)


def merged_minutes(old: DataFrame, new: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    counts = ["events", "gc_events", "bytes", "tombstones"]
    both = old.select(GOLD_COLUMNS).unionByName(new.select(GOLD_COLUMNS))
    return (
        both.groupBy("stream", "minute")
        .agg(
            f.min("seq").alias("seq"),
            *(f.sum(name).cast("long").alias(name) for name in counts),
            f.hll_union_agg("keys_sketch").alias("keys_sketch"),
            f.kll_merge_agg_bigint("lags_sketch").alias("lags_sketch"),
        )
        .select(GOLD_COLUMNS)
    )


def savings(spark: SparkSession, lake: Lake) -> DataFrame:
    """Per stream: numbers given out, events stored in bronze, keys with a value, and the share of
    what was generated that is stored."""
    from pyspark.sql import functions as f

    rows = lake.read_bronze(spark)
    real = f.col("kind").isin(EVENT, GC)
    covered = f.when(real | (f.col("kind") == TOMBSTONE), f.col("last") - f.col("seq") + 1)
    stored = rows.groupBy("stream").agg(
        f.sum(covered).cast("long").alias("generated"), _total(real).alias("stored")
    )
    values = read_silver(spark, lake).groupBy("stream").agg(f.count("*").alias("current"))
    ratio = (f.col("stored") / f.col("generated")).alias("stored_share")
    current = f.coalesce("current", f.lit(0)).alias("current")
    both = stored.join(values, "stream", "left")
    return both.select("stream", "generated", "stored", current, ratio)


def _total(condition: Column) -> Column:
    from pyspark.sql import functions as f

    return f.sum(condition.cast("long")).cast("long")


def _read(
    spark: SparkSession, lake: Lake, snapshot: Snapshot, streams: Sequence[str] | None = None
) -> DataFrame:
    files = snapshot.paths(streams)
    if not files:
        return spark.createDataFrame([], GOLD_SPARK)
    reader = spark.read.schema(GOLD_SPARK).option("basePath", str(lake.gold))
    return reader.parquet(*files).select(GOLD_COLUMNS)


class _Place:
    """Tombstones have no time: they count for the minute of the event before them, or else of the
    first one behind; where none is known, for the minute of the commit that brought them."""

    def __init__(self, places: pa.Table) -> None:
        self._places = {stream: rows.sort_by("seq") for stream, rows in by_stream(places)}

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in batches:
            for stream, rows in by_stream(pa.Table.from_batches([batch])):
                minutes = rows["minute"]
                places = self._places.get(stream)
                if places is not None:
                    at = np.searchsorted(places["seq"].to_numpy(), rows["seq"].to_numpy())
                    minutes = places["minute"].take(pa.array(np.maximum(at - 1, 0)))
                count = pc.add(pc.subtract(rows["last"], rows["seq"]), 1)
                columns = [minutes, rows["seq"], count]
                yield from with_stream(stream, pa.table(columns, ["minute", "seq", "tombstones"]))
