"""Starting from the lake and the tail of the stream is as good as starting from the beginning."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epicast import Event, EventBatch, EventKind, Reset, Tombstone, Watermark, sync
from epicast.cli import main
from epicast.geo.local import LocalGeoplex
from epicast.log import GcPolicy, split_gc_payload
from epicast.log.predicate.ast import KeyIn
from epicast.pipeline.lake import bootstrap
from epicast.pipeline.lake.columns import rows_of
from epicast.pipeline.lake.failures import DamagedTable
from epicast.pipeline.lake.layout import Lake, LakeStream
from epicast.pipeline.lake.silver import silver_table
from epicast.pipeline.lake.tables import NewFile
from epicast.pipeline.lake.versions import StreamTable
from tests.pipeline.lake_events import (
    event,
    gc,
    history,
    ingest,
    live_events,
    new_lake,
    policy_of,
    random_rows,
    reset,
)

PRICES = LakeStream("prices", 1, latest_per_key=True)
Values = dict[bytes, bytes]


@pytest.fixture(scope="module")
def local() -> Any:
    with LocalGeoplex() as running:
        yield running


def take(values: Values, item: object) -> None:
    """What any cache does with what it is told."""
    if isinstance(item, Reset):
        values.clear()
    elif isinstance(item, Event) and item.kind == EventKind.GC:
        predicate, _ = split_gc_payload(item.payload)
        assert isinstance(predicate, KeyIn)
        for key in predicate.keys:
            values.pop(key, None)
    elif isinstance(item, Event):
        values[item.key] = item.payload


def upto_head(stream: Any, after: Any, values: Values) -> None:
    """Take everything there is behind a place."""
    head = stream.head()
    with stream.subscribe(after) as subscription:
        for item in subscription:
            take(values, item)
            last = item.last if isinstance(item, Tombstone) else item.seq
            if last >= head.seq:
                return


def fill(lake: Lake, batch: int, stream: Any) -> None:
    """bronze as far as the stream is now, as ingestion writes it."""
    bronze = lake.bronze_table()
    marks = bronze.watermarks()
    head = stream.head()
    parts = []
    with stream.subscribe(marks.get("prices", 0)) as subscription:
        for found in subscription.batches():
            parts.append(rows_of(found))
            if isinstance(found, EventBatch) and found.last >= head.seq:
                break
    rows = pa.Table.from_batches(parts)
    path = lake.bronze / "stream=prices" / f"{batch}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    new = NewFile(f"stream=prices/{path.name}", "prices", 0, rows.num_rows, path.stat().st_size,
                  rows["seq"][0].as_py(), head.seq)  # fmt: skip
    bronze.commit(batch, [new], {**marks, "prices": head})


def values_of(snapshot: bootstrap.Snapshot) -> Values:
    found: Values = {}
    for batch in snapshot.batches(7):
        found.update(zip(batch["key"].to_pylist(), batch["payload"].to_pylist(), strict=True))
    return found


def test_snapshot_and_tail_are_the_whole(
    local: LocalGeoplex, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    lake = new_lake(tmp_path / "lake", PRICES)
    with sync.connect(local.address("eu"), agent=False) as node:
        prices = node.stream("prices")
        prices.publish_many([b"%d" % n for n in range(40)], [b"k%d" % (n % 9) for n in range(40)])
        prices.collect("key in ('k3', 'k4')")
        fill(lake, 0, prices)
        prices.publish_many([b"new", b"back"], [b"k1", b"k4"])
        prices.collect("key == 'k2'")

        snapshot = bootstrap.read(lake.folder, "prices")
        assert snapshot.watermark.seq == prices.head().seq - 3
        bootstrapped = values_of(snapshot)
        assert b"k3" not in bootstrapped
        upto_head(prices, snapshot.watermark, bootstrapped)
        whole: Values = {}
        upto_head(prices, 0, whole)
        assert bootstrapped == whole
        assert (whole[b"k1"], whole[b"k4"]) == (b"new", b"back")

        # The same on the command line.
        arguments = ["--from-lake", str(lake.folder), "--no-follow", "--json", "--from"]
        assert main(["subscribe", "prices", *arguments, local.address("eu")]) == 0
        lines = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
        assert lines[0] == {"kind": "snapshot", "epoch": snapshot.watermark.epoch,
                            "seq": snapshot.watermark.seq, "keys": 7}  # fmt: skip
        assert [line["seq"] for line in lines[1:]] == sorted(line["seq"] for line in lines[1:])
        assert {line["key"]: line["value"] for line in lines if line["kind"] == "data"} == {
            key.decode(): value.decode() for key, value in {**values_of(snapshot), **whole}.items()
        }

    # The owner, which keeps prices in memory, loses everything: a new epoch.
    local.kill("eu")
    local.start("eu")
    with sync.connect(local.address("eu"), agent=False, timeout=30) as node:
        prices = node.stream("prices")
        prices.publish(b"anew", b"k9")
        values = values_of(bootstrap.read(lake, "prices"))
        with prices.subscribe(snapshot.watermark) as subscription:
            first, second = subscription.get(timeout=20), subscription.get(timeout=20)
        assert isinstance(first, Reset)
        take(values, first)
        take(values, second)
        assert values == {b"k9": b"anew"}


@pytest.mark.parametrize("latest", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_the_snapshot_is_what_the_history_has(tmp_path: Path, latest: bool, seed: int) -> None:
    """Without silver, and with silver that lags behind."""
    stream = LakeStream("prices", 1, latest_per_key=latest)
    policy = policy_of(stream)
    lake = new_lake(tmp_path / "lake", stream)
    rows = random_rows(seed, 90, policy)
    ingest(lake, 0, prices=rows[:50])
    assert numbers(bootstrap.read(lake, "prices")) == live(rows[:50], policy)
    silver = silver_table(lake)
    keep_as_silver(lake, silver, bootstrap.read(lake, "prices"))
    ingest(lake, 1, prices=rows[50:])
    assert silver.snapshot().watermarks == {"prices": Watermark(0, 50)}
    assert numbers(bootstrap.read(lake, "prices")) == live(rows, policy)


def numbers(snapshot: bootstrap.Snapshot) -> dict[bytes, int]:
    rows = snapshot.values.to_pylist()
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)
    return {row["key"]: row["seq"] for row in rows}


def live(rows: list[Any], policy: GcPolicy) -> dict[bytes, int]:
    found = live_events(history(rows, policy))
    return {e.key: e.seq for e in found if e.key and not e.kind}


def keep_as_silver(lake: Lake, silver: StreamTable, snapshot: bootstrap.Snapshot) -> None:
    path = lake.silver / "stream=prices" / "1.parquet"
    path.parent.mkdir(parents=True)
    epochs = pa.array([snapshot.watermark.epoch] * snapshot.values.num_rows, pa.int64())
    pq.write_table(snapshot.values.add_column(0, "epoch", epochs), path)
    new = NewFile("stream=prices/1.parquet", "prices", 0, len(epochs), path.stat().st_size, 1, 50)
    silver.replace(silver.snapshot(), [], [new], watermarks={"prices": snapshot.watermark})


def test_only_the_present_epoch_counts(tmp_path: Path) -> None:
    lake = new_lake(tmp_path / "lake", PRICES)
    ingest(lake, 0, prices=[event(1, b"a", b"old"), event(2, b"b", b"old")])
    keep_as_silver(lake, silver_table(lake), bootstrap.read(lake, "prices"))
    ingest(
        lake, 1, prices=[reset(1, 0), event(1, b"b", b"new", epoch=1), gc(2, "seq < 1", epoch=1)]
    )
    assert values_of(bootstrap.read(lake, "prices")) == {b"b": b"new"}


def test_a_file_that_is_cut_off_is_said(tmp_path: Path) -> None:
    lake = new_lake(tmp_path / "lake", PRICES)
    ingest(lake, 0, prices=[event(1, b"a", b"1")])
    (file,) = lake.bronze.rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(
        DamagedTable, match=rf"a table of {lake.folder} cannot be read: .*{file.name}"
    ):
        bootstrap.read(lake, "prices")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    lake = new_lake(tmp_path / "lake", PRICES)
    with pytest.raises(bootstrap.NotInLake, match="has nothing of 'prices' yet"):
        bootstrap.read(lake, "prices")
    with pytest.raises(bootstrap.NotInLake, match="no stream 'prizes', only prices"):
        bootstrap.read(lake, "prizes")
