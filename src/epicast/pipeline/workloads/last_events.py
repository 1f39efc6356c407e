"""The last event of every key, as a Spark job over a workload.

Tasks read stretches of consecutive chunks and combine within them: keys in a window go through
dense columns, at the cost of one store per event, others are sorted. Spark is left with a row per
key and task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast.pipeline.workloads.files import ChunkFacts, chunk_path, read_columns
from epicast.pipeline.workloads.generating import cores_of
from epicast.pipeline.workloads.manifest import Workload, load_workload

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "key long, segment int, code long"
"""A code is the number of a row and its operation in one: the largest is that of the last event,
and Spark is fastest at plain numbers."""
CODE_BITS = 2
_OP_MASK = (1 << CODE_BITS) - 1
_TASKS_PER_CORE = 2
_WIDEST_WINDOW = 1 << 25
_USUAL_WINDOW = 1 << 21
"""To both sides of 0, where keys reach too far for one window."""

Column = NDArray[np.int64]


class Stretch(NamedTuple):
    """Consecutive chunks, for one task. Rows are numbered from 1 over the whole workload."""

    directory: str
    first_chunk: int
    chunks: Sequence[ChunkFacts]
    rows_before: int


def stretches(workload: Workload, directory: Path, tasks: int) -> list[Stretch]:
    """About as many as asked for, of equally many chunks."""
    size = -(-len(workload.chunks) // max(1, tasks))
    starts = workload.starts()
    return [
        Stretch(str(directory.absolute()), low, workload.chunks[low : low + size], starts[low])
        for low in range(0, len(workload.chunks), size)
    ]


def map_stretches(
    spark: SparkSession,
    workload: Workload,
    directory: Path,
    function: Callable[[Stretch], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """What the function makes of each stretch, a task each."""
    parts = stretches(workload, directory, cores_of(spark) * _TASKS_PER_CORE)

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from function(parts[number])

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(work, schema)


def last_event_per_key(spark: SparkSession, directory: Path) -> DataFrame:
    """`key`, `number` of its last row, from 1, and `op` of that row."""
    from pyspark.sql import functions as F

    workload = load_workload(directory)
    rows = map_stretches(spark, workload, directory, lambda part: last_rows(part, ()), SCHEMA)
    last = rows.groupBy("key").agg(F.max("code").alias("code"))
    number = F.expr(f"shiftright(code, {CODE_BITS})").alias("number")
    return last.select("key", number, F.expr(f"cast(code & {_OP_MASK} as byte)").alias("op"))


def count_last_events(spark: SparkSession, directory: Path) -> tuple[int, int]:
    """How many keys have a last event, and the sum of the numbers of those events."""
    from pyspark.sql import functions as F

    found = last_event_per_key(spark, directory)
    total = F.sum(F.col("number").cast("decimal(20,0)"))
    (row,) = found.agg(F.count("*"), total).collect()
    return int(row[0]), int(row[1] or 0)


def last_rows(stretch: Stretch, cuts: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The last event per key and segment of a stretch, in no order; sparse keys once per chunk.

    A segment ends at every cut, given as the number of its last row; the first segment is 0.
    """
    window = Window(*window_of(stretch.chunks))
    before = stretch.rows_before
    for offset, facts in enumerate(stretch.chunks):
        path = chunk_path(Path(stretch.directory), stretch.first_chunk + offset)
        key, op = read_columns(path, "key", "op")
        codes = (np.arange(before + 1, before + 1 + facts.rows) << CODE_BITS) | op
        inside = [cut - before for cut in cuts if before < cut < before + facts.rows]
        for low, high in zip([0, *inside], [*inside, facts.rows], strict=True):
            segment = sum(cut <= before + low for cut in cuts)
            if segment != window.segment:
                yield from window.emptied(segment)
            yield from window.put(key[low:high], codes[low:high])
        before += facts.rows
    yield from window.emptied(-1)


class Window:
    """A dense column for a range of keys."""

    def __init__(self, low: int, high: int) -> None:
        self.segment = -1
        self._low = low
        self._high = high
        self._codes = np.zeros(high - low + 1, dtype=np.int64)
        """0 where nothing was seen."""

    def put(self, key: Column, codes: Column) -> Iterator[pa.RecordBatch]:
        """Take rows; those outside the window are given back, the last per key."""
        outside = (key < self._low) | (key > self._high)
        if outside.any():
            rows = last_places(key, np.flatnonzero(outside))
            yield self._batch(key[rows], codes[rows])
            key, codes = key[~outside], codes[~outside]
        self._codes[key - self._low] = codes  # of several with one key, the last one stays

    def emptied(self, segment: int) -> Iterator[pa.RecordBatch]:
        """What was gathered; what comes next belongs to `segment`."""
        places = np.flatnonzero(self._codes)
        if len(places):
            yield self._batch(places + self._low, self._codes[places])
            self._codes[places] = 0
        self.segment = segment

    def _batch(self, key: Column, codes: Column) -> pa.RecordBatch:
        import pyarrow as pa

        segment = np.full(len(key), self.segment, dtype=np.int32)
        return pa.record_batch({"key": key, "segment": segment, "code": codes})


def window_of(chunks: Sequence[ChunkFacts], least: int | None = None) -> tuple[int, int]:
    """The keys to have dense columns for, of those from `least` on if that is given."""
    low = min(facts.lowest_key for facts in chunks)
    high = max(facts.highest_key for facts in chunks)
    if least is not None:
        return least, max(least, min(high, least + _WIDEST_WINDOW))
    if high - low < _WIDEST_WINDOW:
        return low, high
    return -_USUAL_WINDOW, _USUAL_WINDOW


def last_places(key: Column, rows: Column) -> Column:
    """Of the rows, in order, those behind which none has the same key."""
    backwards = rows[::-1]
    _, places = np.unique(key[backwards], return_index=True)
    found: Column = backwards[places]
    return found
