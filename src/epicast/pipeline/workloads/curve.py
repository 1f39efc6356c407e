"""How much is stored of what was generated: claims S5 and S6 for as many events as there are.

With `latest_per_key`, what is live after n events is one event per key among them, unless the key
was deleted last. Without deletions that is the number of keys whose first event is among the first
n: one number per key gives the whole curve. Of keys that a generated workload inserts that event is
the insertion, so that they need only be counted. With deletions it takes the last event of every
key in every segment between two points of the curve.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from epicast.pipeline.workloads.chunks import Op
from epicast.pipeline.workloads.files import chunk_path, read_columns
from epicast.pipeline.workloads.last_events import (
    CODE_BITS,
    SCHEMA,
    Stretch,
    last_rows,
    map_stretches,
    window_of,
)
from epicast.pipeline.workloads.manifest import Workload

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_LEAST_POWER = 3


class Point(Struct, frozen=True):
    generated: int
    stored: int

    @property
    def saving(self) -> float:
        return 1 - self.stored / self.generated


def marks_of(rows: int) -> list[int]:
    """1, 2 and 5 times the powers of ten from a thousand on, and the end."""
    steps = [step * 10**power for power in range(_LEAST_POWER, 18) for step in (1, 2, 5)]
    return [mark for mark in steps if mark < rows] + [rows]


def storage_curve(
    spark: SparkSession, workload: Workload, directory: Path, marks: Sequence[int] | None = None
) -> list[Point]:
    """`marks` are ascending and below 2^62; at most 60."""
    marks = marks or marks_of(workload.rows)
    count = _with_deletions if workload.deletes else _without_deletions
    stored = count(spark, workload, directory, marks)
    return [Point(mark, count) for mark, count in zip(marks, stored, strict=True)]


def _without_deletions(
    spark: SparkSession, workload: Workload, directory: Path, marks: Sequence[int]
) -> list[int]:
    from pyspark.sql import functions as F

    generated = workload.spec is not None
    rows = map_stretches(
        spark,
        workload,
        directory,
        lambda part: first_rows(part, without_inserted=generated),
        "key long, number long",
    )
    first = rows.groupBy("key").agg(F.min("number").alias("number"))
    stored = _sums(first, [f"number <= {mark}" for mark in marks])
    inserted = inserted_up_to(workload, directory, marks) if generated else [0] * len(marks)
    return [sum(both) for both in zip(stored, inserted, strict=True)]


def inserted_up_to(workload: Workload, directory: Path, marks: Sequence[int]) -> list[int]:
    """How many of the first rows are insertions; reads only the chunks that a mark cuts."""
    starts = [*workload.starts(), workload.rows]
    before = np.concatenate([[0], np.cumsum([facts.inserts for facts in workload.chunks])])
    found = []
    for mark in marks:
        chunk = int(np.searchsorted(starts, mark, side="right")) - 1
        inserted = int(before[chunk])
        if mark > starts[chunk] and workload.chunks[chunk].inserts:
            (op,) = read_columns(chunk_path(directory, chunk), "op")
            inserted += int(np.count_nonzero(op[: mark - starts[chunk]] == Op.INSERT))
        found.append(inserted)
    return found


def _with_deletions(
    spark: SparkSession, workload: Workload, directory: Path, marks: Sequence[int]
) -> list[int]:
    """Segments as bits: a key is live if the highest one up to a mark is not that of a deletion."""
    from pyspark.sql import functions as F

    cuts = tuple(marks)
    rows = map_stretches(spark, workload, directory, lambda part: last_rows(part, cuts), SCHEMA)
    last = rows.groupBy("key", "segment").agg(F.max("code").alias("code"))
    bit = "shiftleft(1L, segment)"
    deleted = f"code & {(1 << CODE_BITS) - 1} = {int(Op.DELETE)}"
    keys = last.groupBy("key").agg(
        F.expr(f"bit_or(if({deleted}, 0L, {bit}))").alias("kept"),
        F.expr(f"bit_or(if({deleted}, {bit}, 0L))").alias("gone"),
    )
    lows = [(2 << segment) - 1 for segment in range(len(marks))]
    return _sums(keys, [f"(kept & {low}L) > (gone & {low}L)" for low in lows])


def _sums(keys: DataFrame, conditions: Sequence[str]) -> list[int]:
    """How many rows meet each of the conditions."""
    from pyspark.sql import functions as F

    (row,) = keys.agg(*(F.count_if(F.expr(condition)) for condition in conditions)).collect()
    return [int(count) for count in row]


def first_rows(stretch: Stretch, without_inserted: bool = False) -> Iterator[pa.RecordBatch]:
    """The first event of every key of a stretch; of keys outside the window, of every chunk. Keys
    that were inserted are below 0."""
    import pyarrow as pa

    low, high = window_of(stretch.chunks, least=1 if without_inserted else None)
    seen = np.zeros(high - low + 1, dtype=np.int64)
    before = stretch.rows_before
    for offset, facts in enumerate(stretch.chunks):
        path = chunk_path(Path(stretch.directory), stretch.first_chunk + offset)
        (key,) = read_columns(path, "key")
        number = np.arange(before + 1, before + 1 + facts.rows)
        if without_inserted:
            key, number = key[key > 0], number[key > 0]
        outside = (key < low) | (key > high)
        unseen = seen[np.where(outside, low, key) - low] == 0
        new = np.flatnonzero(unseen & ~outside)[::-1]  # backwards: the first one stays
        seen[key[new] - low] = number[new]
        far = np.flatnonzero(outside)
        if len(far):
            keys, rows = np.unique(key[far], return_index=True)
            yield pa.record_batch({"key": keys, "number": number[far[rows]]})
        before += facts.rows
    places = np.flatnonzero(seen)
    yield pa.record_batch({"key": places + low, "number": seen[places]})
