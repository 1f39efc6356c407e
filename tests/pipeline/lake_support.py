"""A small geoplex to fill lakes from, and what must be true of what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from epicast import sync
from epicast.deployment import Geoplex, parse_geoplex
from epicast.pipeline.lake.layout import Lake, LakeStream
from epicast.pipeline.lake.schema import bronze_schema


def one_region(
    streams: Sequence[str], data: Path | None, *, name: str = "small", policy: str = ""
) -> Geoplex:
    """The proxy `us` owns all streams."""
    lines = [f'name = "{name}"', "[regions.us]", 'proxy = "127.0.0.1:1"']
    if data is not None:
        lines.append(f'data = "{data}"')
    for stream in streams:
        ack = "memory" if data is None else "disk"
        lines += [f"[streams.{stream}]", 'owner = "us"', f'ack = "{ack}"', policy]
    return parse_geoplex("\n".join(lines), "a test")


def publish(address: str, stream: str, count: int, keys: int = 7, *, batch: int = 500) -> None:
    """Payloads tell how many there have been before."""
    with sync.connect(address, agent=False) as node:
        opened = node.stream(stream)
        begin = opened.head().seq
        for low in range(begin, begin + count, batch):
            numbers = range(low, min(low + batch, begin + count))
            opened.publish_many(
                [b"%d" % (number + 1) for number in numbers], [b"k%d" % (n % keys) for n in numbers]
            )


def new_lake(folder: Path, address: str, streams: Sequence[str], kind: Any = "delta") -> Lake:
    with sync.connect(address, agent=False) as node:
        found = [LakeStream.of(node.stream(name).info) for name in streams]
        return Lake.create(folder, geoplex=node.geoplex, streams=found, table=kind)


def plain_rows(lake: Lake) -> pa.Table:
    """As a reader sees it that knows nothing of Spark or of Epicast."""
    if lake.table == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(lake.bronze)).to_pyarrow_table()
    schema = pa.schema([pa.field("stream", pa.string())])
    files = dataset.dataset(
        lake.bronze, schema=bronze_schema(), format="parquet",
        partitioning=dataset.partitioning(schema, flavor="hive"),
    )  # fmt: skip
    return files.to_table()


def uncovered_or_twice(ranges: Iterable[tuple[int, int]], last: int) -> list[tuple[int, int]]:
    """Where 1..last is not covered exactly once by first..last ranges; empty if all is well."""
    problems, expected = [], 1
    for low, high in sorted(ranges):
        if low != expected:
            problems.append((expected, low))
        expected = high + 1
    return problems if expected == last + 1 else [*problems, (expected, last)]


def assert_exactly_once(rows: pa.Table, stream: str, last: int) -> None:
    """Every number once, as itself or under a tombstone; and events are what was published."""
    mine = rows.filter(pc.equal(rows["stream"], stream))
    spans = zip(mine["seq"].to_pylist(), mine["last"].to_pylist(), strict=True)
    assert uncovered_or_twice(spans, last) == []
    events = mine.filter(pc.equal(mine["kind"], "event"))
    expected = [b"%d" % number for number in events["seq"].to_pylist()]
    assert events["payload"].to_pylist() == expected
