"""Compaction takes away what the streams themselves have collected, and nothing else."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epicast import Watermark
from epicast.pipeline.lake import compaction
from epicast.pipeline.lake.bronze_versions import bronze_versions
from epicast.pipeline.lake.compaction import compact, forget, in_order
from epicast.pipeline.lake.layout import Lake, LakeStream
from epicast.pipeline.lake.merging import merge_tombstones
from epicast.pipeline.lake.schema import BRONZE_SPARK, bronze_schema
from epicast.pipeline.lake.silver import read_silver, silver_table, update_silver
from epicast.pipeline.lake.versions import TableBusy
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
STREAMS = (LATEST, PLAIN, RECENT)


def rows_of(spark: Any, lake: Lake, stream: str) -> list[Any]:
    rows = lake.read_bronze(spark).where(f"stream = '{stream}'")
    return rows.orderBy("epoch", "seq", "last").collect()  # type: ignore[no-any-return]


def covered(rows: list[Any]) -> list[int]:
    return [
        number for row in rows if row.kind != "reset" for number in range(row.seq, row.last + 1)
    ]


def silver_of(spark: Any, lake: Lake) -> set[tuple[Any, ...]]:
    rows = read_silver(spark, lake).collect()
    return {(r.stream, r.epoch, bytes(r.key), r.seq, r.time, bytes(r.payload)) for r in rows}


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_what_is_left_is_what_the_history_has(spark: Any, tmp_path: Path, kind: str) -> None:
    lake = new_lake(tmp_path / "lake", *STREAMS, kind=kind)
    streams = {s.name: random_rows(seed, 150, policy_of(s)) for seed, s in enumerate(STREAMS)}
    for batch in range(3):
        part = slice(50 * batch, 50 * batch + 50)
        ingest(lake, batch, **{name: rows[part] for name, rows in streams.items()})
    update_silver(spark, lake)
    silver = silver_of(spark, lake)
    done = compact(spark, lake)
    assert [result.stream for result in done] == ["latest", "plain", "recent"]
    assert all((result.files_before, result.files_after) == (3, 1) for result in done)
    for stream in STREAMS:
        rows = rows_of(spark, lake, stream.name)
        live = live_events(history(streams[stream.name], policy_of(stream)))
        kept = [row for row in rows if row.kind != "tombstone"]
        assert [(r.seq, bytes(r.key), bytes(r.payload)) for r in kept] == [
            (e.seq, e.key, e.payload) for e in live
        ]
        assert covered(rows) == list(range(1, 151))
        graves = [row for row in rows if row.kind == "tombstone"]
        assert not {row.seq for row in graves} & {row.last + 1 for row in graves}, "not merged"
    # Rebuilt from what is left, silver is the same.
    stored = silver_table(lake)
    base = stored.snapshot()
    stored.replace(base, base.files, [], watermarks={})
    update_silver(spark, lake)
    assert silver_of(spark, lake) == silver
    # There is nothing left to do, and ingestion goes on.
    assert compact(spark, lake) == []
    ingest(lake, 3, latest=[event(151, b"a", b"new")])
    assert [result.stream for result in compact(spark, lake)] == ["latest"]
    assert covered(rows_of(spark, lake, "latest")) == list(range(1, 152))


def test_every_epoch_keeps_what_it_had(spark: Any, tmp_path: Path) -> None:
    """An epoch that is over was not collected by the next one."""
    lake = new_lake(tmp_path / "lake", LATEST)
    old = [event(1, b"a", b"1"), event(2, b"a", b"2"), event(3, b"b", b"3")]
    new = [reset(1, 1), event(2, b"b", b"4", epoch=1), gc(3, 'key == "a"', epoch=1)]
    ingest(lake, 0, latest=[*old, *new])
    compact(spark, lake)
    found = [(r.epoch, r.seq, r.last, r.kind) for r in rows_of(spark, lake, "latest")]
    assert found == [
        (0, 1, 1, "tombstone"), (0, 2, 2, "event"), (0, 3, 3, "event"),
        (1, 1, 1, "reset"), (1, 2, 2, "event"), (1, 3, 3, "gc"),
    ]  # fmt: skip


def test_a_number_that_is_missing_stays_missing(spark: Any) -> None:
    """Compaction must not make a loss look like garbage."""
    rows = [tombstone(1, 3), tombstone(4, 4), tombstone(6, 7), event(8, b"a", b""), tombstone(9, 9)]
    stored = table(rows).to_pylist()
    frame = spark.createDataFrame([{"stream": "plain", **row} for row in stored], BRONZE_SPARK)
    found = [(row.seq, row.last, row.kind) for row in in_order(frame, 1).collect()]
    assert found == [(1, 4, "tombstone"), (6, 7, "tombstone"), (8, 8, "event"), (9, 9, "tombstone")]


def test_tombstones_are_merged_across_batches_but_not_across_streams_or_epochs() -> None:
    rows = [("a", tombstone(1, 1)), ("a", tombstone(2, 5)), ("a", tombstone(6, 6, epoch=1)),
            ("b", tombstone(7, 7, epoch=1)), ("b", tombstone(8, 9, epoch=1))]  # fmt: skip
    whole = pa.Table.from_pylist([{"stream": s, **row} for s, row in rows], schema=bronze_schema())
    for size in (1, 2, 5):
        merged = pa.Table.from_batches(list(merge_tombstones(iter(whole.to_batches(size)))))
        found = [(r["stream"], r["seq"], r["last"]) for r in merged.to_pylist()]
        assert found == [("a", 1, 5), ("a", 6, 6), ("b", 7, 9)], size


def test_only_small_files_of_a_stream_that_collects_nothing_are_rewritten(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = new_lake(tmp_path / "lake", PLAIN)
    large = os.urandom(9000)
    ingest(lake, 0, plain=[event(1, b"a", large)])
    ingest(lake, 1, plain=[event(2, b"a", b"2")])
    ingest(lake, 2, plain=[event(3, b"a", b"3")])
    monkeypatch.setattr(compaction, "_SMALL", 8000)
    (done,) = compact(spark, lake)
    assert (done.files_before, done.files_after, done.rows_after) == (2, 1, 2)
    assert [row.seq for row in rows_of(spark, lake, "plain")] == [1, 2, 3]
    (file,) = lake.bronze.rglob("compact-*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    encoded = {c.path_in_schema for c in columns if "DELTA_BINARY_PACKED" in c.encodings}
    assert encoded == {"seq", "last"}, "or files become larger than they were"
    assert bronze_versions(lake).snapshot().compacted == {}


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_ingestion_goes_on_meanwhile(
    spark: Any, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit between reading and replacing is kept; another compaction makes this one begin
    again."""
    lake = new_lake(tmp_path / "lake", LATEST, kind=kind)
    ingest(lake, 0, latest=[event(1, b"a", b"1"), event(2, b"a", b"2")])
    write = compaction.write_files
    waiting: list[Any] = [
        lambda: ingest(lake, 1, latest=[event(3, b"a", b"3")]),
        lambda: compact(spark, lake),
    ]

    def write_and_be_overtaken(*arguments: Any) -> Any:
        files = write(*arguments)
        if waiting:
            waiting.pop(0)()
        return files

    monkeypatch.setattr(compaction, "write_files", write_and_be_overtaken)
    compact(spark, lake)
    assert covered(rows_of(spark, lake, "latest")) == [1, 2, 3]
    ingest(lake, 2, latest=[event(4, b"b", b"4")])
    compact(spark, lake)  # which the second one of the list overtakes
    rows = rows_of(spark, lake, "latest")
    assert [(r.seq, r.last, r.kind) for r in rows] == [
        (1, 2, "tombstone"), (3, 3, "event"), (4, 4, "event"),
    ]  # fmt: skip
    snapshot = bronze_versions(lake).snapshot()
    assert snapshot.watermarks == snapshot.compacted == {"latest": Watermark(0, 4)}


def test_who_is_overtaken_time_and_again_says_so(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = new_lake(tmp_path / "lake", LATEST)
    ingest(lake, 0, latest=[event(1, b"a", b"1"), event(2, b"a", b"2")])
    tried = []

    def refuse(*arguments: Any) -> Any:
        tried.append(arguments)
        raise TableBusy("changed")

    monkeypatch.setattr(compaction, "write_files", refuse)
    with pytest.raises(TableBusy):
        compact(spark, lake)
    assert len(tried) == compaction.ATTEMPTS


KILLED = """
import os, signal, sys
from epicast.pipeline.lake import compaction, versions
from epicast.pipeline.lake.{module} import {table}
from epicast.pipeline.lake.layout import Lake
from epicast.pipeline.session import spark_session
{table}.replace = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
with spark_session("local[1]", memory="512m") as spark:
    compaction.compact(spark, Lake.open(sys.argv[1]))
"""


def test_sigkill_before_the_commit_changes_nothing(spark: Any, tmp_path: Path) -> None:
    lake = new_lake(tmp_path / "lake", LATEST)
    rows: list[Row] = [event(n, b"a", b"%d" % n) for n in range(1, 20)]
    ingest(lake, 0, latest=rows)
    script = KILLED.format(module="delta_versions", table="DeltaVersions")
    done = subprocess.run(
        [sys.executable, "-c", script, str(lake.folder)], check=False, timeout=200
    )
    assert done.returncode == -signal.SIGKILL
    orphans = [path.name for path in lake.bronze.rglob("compact-*.parquet")]
    assert len(orphans) == 1
    assert [row.seq for row in rows_of(spark, lake, "latest")] == list(range(1, 20))
    assert forget(lake) == []  # too young: its writer might still be at work
    assert [Path(name).name for name in forget(lake, older_than_s=0)] == orphans
    compact(spark, lake)
    assert [(r.seq, r.last) for r in rows_of(spark, lake, "latest")] == [(1, 18), (19, 19)]
