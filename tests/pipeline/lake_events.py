"""Streams of events for lake tests: as rows of bronze, and as the real history has them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from epicast import Watermark
from epicast.core import Event, EventBatch, EventKind
from epicast.log import GcPolicy, History, gc_payload, parse
from epicast.pipeline.lake.layout import Lake, LakeStream
from epicast.pipeline.lake.schema import EVENT, GC, RESET, TOMBSTONE, bronze_file_schema
from epicast.pipeline.lake.tables import NewFile

Row = dict[str, Any]
START_US = 1_760_000_000_000_000
PREDICATES = (
    'key == "a"', 'key in ("b", "c")', 'key prefix "k"', "seq < {near}", "size < 3", "size >= 5",
    'key == "d" and seq < {near}', "published_before {time}", 'not (key prefix "k")',
    'key == "a" and size < 4', "key == x\"\"",
)  # fmt: skip


def event(seq: int, key: bytes, payload: bytes, epoch: int = 0, at_us: int | None = None) -> Row:
    time = START_US + 1_000_000 * seq if at_us is None else at_us
    return _row(epoch, seq, seq, EVENT, time, key, payload)


def gc(seq: int, predicate: str, key: bytes = b"", epoch: int = 0) -> Row:
    payload = gc_payload(parse(predicate))
    return _row(epoch, seq, seq, GC, START_US + 1_000_000 * seq, key, payload)


def tombstone(first: int, last: int, epoch: int = 0) -> Row:
    return _row(epoch, first, last, TOMBSTONE, None, None, None)


def reset(epoch: int, seq: int) -> Row:
    return _row(epoch, seq, seq, RESET, None, None, None)


def _row(epoch: int, seq: int, last: int, kind: str, time: Any, key: Any, payload: Any) -> Row:
    return {"epoch": epoch, "seq": seq, "last": last, "kind": kind, "time": time, "key": key,
            "payload": payload}  # fmt: skip


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=bronze_file_schema())


def random_rows(seed: int, count: int, policy: GcPolicy, epoch: int = 0) -> list[Row]:
    """Events over few keys with GC events of all sorts among them."""
    random = Random(seed)
    rows = []
    for seq in range(1, count + 1):
        key = random.choice([b"", b"a", b"b", b"c", b"d", *(b"k%d" % n for n in range(4))])
        if random.random() < 0.15:
            text = random.choice(PREDICATES).format(
                near=random.randint(1, seq + 3), time=(START_US + 1_000_000 * seq // 2) * 1000
            )
            own = random.choice([b"", b"a", key])
            rows.append(gc(seq, text, own, epoch))
        else:
            rows.append(event(seq, key, bytes(random.randint(0, 8)), epoch))
    return rows


def history(rows: Sequence[Row], policy: GcPolicy, epoch: int = 0) -> History:
    """The rows, which begin with 1 and cover everything, as the stream's owner has them."""
    found = History.in_memory(1, policy=policy, epoch=epoch)
    for row in rows:
        found.append(
            EventBatch.build(
                1, row["seq"], [row["payload"]], keys=[row["key"]], time=row["time"] * 1000,
                kinds=[EventKind.GC if row["kind"] == GC else EventKind.DATA], epoch=epoch,
            )
        )  # fmt: skip
    return found


def live_events(kept: History) -> list[Event]:
    batches = kept.read(1, 1 << 30)
    return [found for batch in batches for found in batch.events()]


def policy_of(stream: LakeStream) -> GcPolicy:
    return GcPolicy(latest_per_key=stream.latest_per_key, last_n=stream.last_n)


def new_lake(folder: Path, *streams: LakeStream, kind: str = "delta") -> Lake:
    return Lake.create(folder, geoplex="test", streams=streams, table=kind)  # type: ignore[arg-type]


def ingest(lake: Lake, batch: int, **rows: Sequence[Row]) -> None:
    """One commit of bronze, as ingestion makes it: rows by stream."""
    bronze = lake.bronze_table()
    watermarks = bronze.watermarks()
    files = []
    for part, (stream, its) in enumerate(rows.items()):
        folder = lake.bronze / ("_staged" if lake.table == "parquet" else f"stream={stream}")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"batch-{batch}-{part}.parquet"
        pq.write_table(table(its), path)
        files.append(
            NewFile(str(path.relative_to(lake.bronze)), stream, part, len(its),
                    path.stat().st_size, its[0]["seq"], its[-1]["last"])
        )  # fmt: skip
        watermarks[stream] = Watermark(its[-1]["epoch"], its[-1]["last"])
    assert bronze.commit(batch, files, watermarks)
