"""Compaction of bronze: fewer files, and none of what the streams have collected.

    compact(spark, lake)

Events that the stream itself has collected, as far as bronze tells, become tombstones, and
tombstones that touch become one. A stream's files are replaced in one commit; ingestion may go on
meanwhile, and what it adds stays as it is. A crash leaves the table as it was, and files that
nobody knows; they are deleted once they are old enough, with those that no kept version needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from epicast import Watermark
from epicast.log.policy import policy_of
from epicast.pipeline.lake.bronze_versions import bronze_versions
from epicast.pipeline.lake.collecting import Collecting, Rules, gc_events_of, rules_of
from epicast.pipeline.lake.merging import merge_tombstones
from epicast.pipeline.lake.schema import BRONZE_SPARK, EVENT, GC, TOMBSTONE
from epicast.pipeline.lake.versions import Snapshot, StreamTable, TableBusy, TableFile
from epicast.pipeline.lake.writing import (
    FILE_BYTES,
    by_stream,
    partitions_for,
    with_stream,
    write_files,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from epicast.pipeline.lake.layout import Lake, LakeStream

ATTEMPTS = 3
KEEP_VERSIONS = 3
OLDER_THAN_S = 24 * 3600.0
_SMALL = FILE_BYTES // 4
_COLUMNS = ["stream", "epoch", "seq", "last", "kind", "time", "key", "payload"]
EpochRules = Mapping[tuple[str, int], Rules]


class Compacted(Struct, frozen=True):
    """What was done to one stream."""

    stream: str
    files_before: int
    files_after: int
    rows_before: int
    rows_after: int
    bytes_before: int
    bytes_after: int


def compact(spark: SparkSession, lake: Lake, streams: Sequence[str] = ()) -> list[Compacted]:
    """Of all streams, or some; those with nothing to do are left out. `TableBusy` if others replace
    the same files time and again."""
    done = []
    table = bronze_versions(lake)
    for stream in streams or sorted(lake.streams):
        for attempt in range(1, ATTEMPTS + 1):
            try:
                result = _compact_stream(spark, lake, table, lake.streams[stream])
                break
            except TableBusy:
                if attempt == ATTEMPTS:
                    raise
        if result is not None:
            done.append(result)
    return done


def forget(
    lake: Lake, keep_versions: int = KEEP_VERSIONS, older_than_s: float = OLDER_THAN_S
) -> list[str]:
    """Delete what no kept version of any table needs; the files, below the lake's folder."""
    from epicast.pipeline.lake.gold import gold_table
    from epicast.pipeline.lake.silver import silver_table

    return [
        f"{table.folder.name}/{path}"
        for table in (bronze_versions(lake), silver_table(lake), gold_table(lake))
        for path in table.forget(keep_versions, older_than_s)
    ]


def _compact_stream(
    spark: SparkSession, lake: Lake, table: StreamTable, stream: LakeStream
) -> Compacted | None:
    base = table.snapshot()
    mark = base.watermarks.get(stream.name)
    if mark is None:
        return None
    rows = lake.read_bronze(spark, base.paths([stream.name]))
    rules, may_collect = _rules(rows, stream, base, mark)
    files = _worth_rewriting(base, stream.name, may_collect)
    if not files:
        return None
    chosen = lake.read_bronze(spark, [str(base.folder / file.path) for file in files])
    partitions = partitions_for(sum(file.size for file in files))
    new = write_files(
        in_order(with_collected_buried(chosen, rules, partitions), partitions),
        lake.bronze,
        lake.table,
        "compact",
    )
    compacted = {**base.compacted, stream.name: mark} if may_collect else None
    table.replace(base, files, new, compacted=compacted)
    return Compacted(
        stream.name,
        len(files),
        len(new),
        sum(file.rows for file in files),
        sum(file.rows for file in new),
        sum(file.size for file in files),
        sum(file.size for file in new),
    )


def _rules(
    rows: DataFrame, stream: LakeStream, base: Snapshot, mark: Watermark
) -> tuple[EpochRules, bool]:
    """What each epoch collects, and whether anything may have been collected since last time."""
    from pyspark.sql import functions as f

    found: pa.Table = rows.where(rows.kind == GC).toArrow()
    ends = {row.epoch: row.end for row in rows.groupBy("epoch").agg(f.max("last").alias("end"))
            .collect()}  # fmt: skip
    policy = policy_of(stream)
    rules: dict[tuple[str, int], Rules] = {}
    newest = Watermark(-1, 0)
    for epoch, end in ends.items():
        events = gc_events_of(_of_epoch(found, epoch))
        rules[stream.name, epoch] = rules_of(epoch, policy, events, end)
        newest = max([newest, *(Watermark(epoch, event.seq) for event in events)])
    before = base.compacted.get(stream.name, Watermark(-1, 0))
    by_itself = policy.latest_per_key or policy.last_n is not None
    return rules, newest > before or (by_itself and mark > before)


def _of_epoch(rows: pa.Table, epoch: int) -> pa.Table:
    import pyarrow.compute as pc

    return rows.filter(pc.equal(rows["epoch"], epoch))


def _worth_rewriting(base: Snapshot, stream: str, may_collect: bool) -> list[TableFile]:
    """All files if events may be collected in any of them; else the small ones, if they become
    fewer by that."""
    files = [file for file in base.files if file.stream == stream]
    if may_collect:
        return files
    small = [file for file in files if file.size < _SMALL]
    wanted = -(-sum(file.size for file in small) // _SMALL)
    return small if len(small) > max(1, wanted) else []


def with_collected_buried(bronze: DataFrame, rules: EpochRules, partitions: int) -> DataFrame:
    """The rows of bronze, with a tombstone in place of each event that was collected."""
    from pyspark.sql import functions as f

    # Rows with one key must meet; those without are spread by their number.
    meets = f.when(f.octet_length("key") > 0, f.xxhash64("key")).otherwise(f.xxhash64("seq"))
    spread = bronze.select(_COLUMNS).repartition(partitions, "stream", "epoch", meets)
    return spread.mapInArrow(_Bury(rules), BRONZE_SPARK)


def in_order(bronze: DataFrame, partitions: int) -> DataFrame:
    """Sorted, with tombstones that touch as one: per partition, which is a range of numbers."""
    order = ["stream", "epoch", "seq", "last"]
    ranges = bronze.repartition(1) if partitions == 1 else (
        bronze.repartitionByRange(partitions, *order)
    )  # fmt: skip
    return ranges.sortWithinPartitions(*order).mapInArrow(merge_tombstones, BRONZE_SPARK)


class _Bury:
    """What a task does: it has all rows of the keys it has."""

    def __init__(self, rules: EpochRules) -> None:
        self._rules = dict(rules)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        found = [*batches]
        if not found:
            return
        for stream, rows in by_stream(pa.Table.from_batches(found)):
            for epoch in pc.unique(rows["epoch"]).to_pylist():
                buried = self._buried(
                    Collecting(self._rules[stream, epoch]), _of_epoch(rows, epoch)
                )
                yield from with_stream(stream, buried)

    def _buried(self, collecting: Collecting, rows: pa.Table) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        real = pc.is_in(rows["kind"], pa.array([EVENT, GC]))
        events, others = rows.filter(real), rows.filter(pc.invert(real))
        gone = pa.array(collecting.collected(events))
        graves = events.filter(gone)
        nothing = {"time", "key", "payload"}
        graves = pa.table(
            [
                pa.nulls(graves.num_rows, field.type) if field.name in nothing
                else pa.repeat(TOMBSTONE, graves.num_rows) if field.name == "kind"
                else graves[field.name]
                for field in graves.schema
            ],
            schema=graves.schema,
        )  # fmt: skip
        return pa.concat_tables([others, graves, events.filter(pc.invert(gone))])
