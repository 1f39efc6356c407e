"""silver: the current value of every key of every stream, the replicated variable as a table.

    update_silver(spark, lake)       # take in what is new in bronze
    read_silver(spark, lake)         # stream, epoch, key, seq, time, payload

A key's value is that of the newest event with the key that the stream has not collected. What is
new in bronze since silver's own watermark is merged into what is there; a stream is read from its
beginning only if one of its GC events may collect a newer event of a key and spare an older one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from epicast.log.policy import policy_of
from epicast.pipeline.lake.collecting import (
    Collecting,
    Rules,
    gc_events_of,
    newest_per_key,
    rules_of,
)
from epicast.pipeline.lake.schema import EVENT, GC, RESET
from epicast.pipeline.lake.versions import Marks, Snapshot, StreamTable, open_table
from epicast.pipeline.lake.writing import by_stream, partitions_for, with_stream, write_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from epicast.pipeline.lake.layout import Lake

SILVER_SPARK = "stream string, epoch long, key binary, seq long, time timestamp, payload binary"
SILVER_COLUMNS = ["stream", "epoch", "key", "seq", "time", "payload"]
_ROWS_AT_A_TIME = 1 << 20


def silver_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("stream", pa.string()),
            pa.field("epoch", pa.int64()),
            pa.field("key", pa.binary()),
            pa.field("seq", pa.int64()),
            pa.field("time", pa.timestamp("us", tz="UTC")),
            pa.field("payload", pa.binary()),
        ]
    )


def silver_table(lake: Lake) -> StreamTable:
    return open_table(lake.silver, lake.table, silver_schema())


def read_silver(
    spark: SparkSession, lake: Lake, snapshot: Snapshot | None = None, streams: Iterable[str] = ()
) -> DataFrame:
    snapshot = snapshot or silver_table(lake).snapshot()
    files = snapshot.paths(list(streams))
    if not files:
        return spark.createDataFrame([], SILVER_SPARK)
    reader = spark.read.schema(SILVER_SPARK).option("basePath", str(lake.silver))
    return reader.parquet(*files).select(SILVER_COLUMNS)


def update_silver(spark: SparkSession, lake: Lake) -> list[str]:
    """The streams that had news. One process at a time: another one gets `TableBusy`."""
    from epicast.pipeline.lake.bronze_versions import bronze_versions

    bronze = bronze_versions(lake).snapshot()
    table = silver_table(lake)
    before = table.snapshot()
    marks, since = bronze.news_since(before)
    changed = list(marks)
    if not changed:
        return []
    rows = lake.read_bronze(spark, bronze.paths(changed))
    rules = rules_since(rows, lake, marks, since)
    anew = [stream for stream, its in rules.items() if stream in since and its.needs_all_events]
    if anew:
        since = {stream: mark for stream, mark in since.items() if stream not in anew}
        rules |= rules_since(rows, lake, {stream: marks[stream] for stream in anew}, {})
    old = [file for file in before.files if file.stream in changed]
    kept = [stream for stream in changed if stream not in anew]
    values = current_values(
        read_silver(spark, lake, before, kept) if kept else spark.createDataFrame([], SILVER_SPARK),
        rows.where(behind(marks, since)),
        rules,
        partitions_for(sum(file.size for file in old) + _new_bytes(bronze, marks, since)),
    )
    files = write_files(values, lake.silver, lake.table, "silver")
    table.replace(before, old, files, watermarks={**before.watermarks, **marks})
    return changed


def _new_bytes(bronze: Snapshot, marks: Marks, since: Marks) -> int:
    """About how much of bronze lies behind `since`."""
    total = 0.0
    for stream, (epoch, seq) in marks.items():
        files = [file for file in bronze.files if file.stream == stream]
        size, rows = sum(file.size for file in files), sum(file.rows for file in files)
        start = since.get(stream)
        new = seq - start.seq if start is not None and start.epoch == epoch else rows
        total += size * min(1.0, new / max(rows, 1))
    return int(total)


def current_values(
    silver: DataFrame, news: DataFrame, rules: Mapping[str, Rules], partitions: int
) -> DataFrame:
    """Values as they were, and rows of bronze behind them: values as they are."""
    from pyspark.sql import functions as f

    events = news.where((news.kind == EVENT) & (f.octet_length(news.key) > 0))
    both = silver.select(SILVER_COLUMNS).unionByName(events.select(SILVER_COLUMNS))
    return both.repartition(partitions, "stream", "key").mapInArrow(_Merge(rules), SILVER_SPARK)


def rules_since(bronze: DataFrame, lake: Lake, marks: Marks, since: Marks) -> dict[str, Rules]:
    """What the present epoch of each stream of `marks`, which is where it is, collects; as far as
    events behind `since` say."""
    wanted = bronze.where(bronze.kind.isin(GC, RESET) & behind(marks, since))
    found: pa.Table = wanted.toArrow()
    parts = dict(by_stream(found))
    return {
        stream: _rules_of_stream(lake, stream, mark, parts.get(stream))
        for stream, mark in marks.items()
    }


def behind(marks: Marks, since: Marks) -> Column:
    """Rows of the streams of `marks`, behind `since` where that names a place."""
    from pyspark.sql import functions as f

    condition = f.lit(False)
    for stream in marks:
        its = f.col("stream") == stream
        if stream in since:
            epoch, seq = since[stream]
            later = (f.col("epoch") == epoch) & (f.col("seq") > seq)
            its &= (f.col("epoch") > epoch) | later
        condition |= its
    return condition


def _rules_of_stream(
    lake: Lake, stream: str, mark: tuple[int, int], rows: pa.Table | None
) -> Rules:
    import pyarrow.compute as pc

    policy = policy_of(lake.streams[stream])
    epoch, end = mark
    if rows is None:
        return rules_of(epoch, policy, [], end)
    rows = rows.filter(pc.equal(rows["epoch"], epoch))
    resets = pc.max(rows.filter(pc.equal(rows["kind"], RESET))["seq"]).as_py()
    return rules_of(epoch, policy, gc_events_of(rows), end, resets or 0)


class _Merge:
    """What a task does: it has all rows of the keys it has."""

    def __init__(self, rules: Mapping[str, Rules]) -> None:
        self._rules = dict(rules)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        at_work: dict[str, Collecting] = {}
        found: dict[str, pa.Table] = {}
        for batch in batches:
            for stream, rows in by_stream(pa.Table.from_batches([batch])):
                if stream not in at_work:
                    at_work[stream] = Collecting(self._rules[stream])
                rows = _of_epoch(rows, self._rules[stream].epoch)
                rows = at_work[stream].keep_matched_by_none(rows)
                if stream in found:
                    rows = pa.concat_tables([found[stream], rows])
                found[stream] = rows if rows.num_rows < _ROWS_AT_A_TIME else newest_per_key(rows)
        for stream, rows in found.items():
            yield from with_stream(stream, newest_per_key(rows))


def _of_epoch(rows: pa.Table, epoch: int) -> pa.Table:
    import pyarrow.compute as pc

    return rows.filter(pc.equal(rows["epoch"], epoch))
