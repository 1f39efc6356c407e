"""A trace of somebody else's as a workload: checked, sorted by time, written in chunks.

Rows of one time stay in the order they had. Everything happens beside the target, which appears
once it is complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from epicast.pipeline.errors import SparkFailed, reason_of
from epicast.pipeline.workloads.chunks import Columns
from epicast.pipeline.workloads.errors import WorkloadError
from epicast.pipeline.workloads.files import (
    EVENTS,
    ChunkFacts,
    check_free,
    chunk_path,
    write_chunk,
)
from epicast.pipeline.workloads.manifest import Trace, Workload, describe
from epicast.pipeline.workloads.traces import TraceColumns, first_problem, open_trace, typed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_PER_CHUNK = 1 << 20
_ROW_BYTES = 8 + 8 + 1 + 4
"""Of a row that does not compress at all."""


def import_trace(
    spark: SparkSession, source: Path, directory: Path, columns: TraceColumns
) -> Workload:
    source, directory = source.absolute(), directory.absolute()
    check_target(directory)
    trace = open_trace(spark, source, columns)
    partial = directory.with_name(f".{directory.name}.importing-{os.getpid()}")
    try:
        rows, hashed = typed(trace, columns)
        count = rows.count()
        if not count:
            raise WorkloadError(f"{source} has no rows")
        problem = first_problem(trace, rows, columns)
        if problem is not None:
            raise WorkloadError(f"{source}: {problem}")
        (partial / EVENTS).mkdir(parents=True)
        check_free(partial, count * _ROW_BYTES, f"{count:,} rows take up to")
        chunks = _write(rows, -(-count // _ROWS_PER_CHUNK), partial)
        about = Trace(
            source=source.name,
            time_unit=columns.time_unit,
            key_column=columns.key,
            keys="hashed" if hashed else "integers",
        )
        workload = describe(partial, chunks, trace=about)
        if directory.exists():
            directory.rmdir()
        partial.rename(directory)
    except OSError as error:
        raise WorkloadError(f"{directory}: cannot be written: {error.strerror or error}") from None
    except Exception as error:
        if type(error).__module__.startswith(("pyspark", "py4j")):
            raise SparkFailed(f"{source}: {reason_of(error)}") from error
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return workload


def check_target(directory: Path) -> None:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise WorkloadError(f"{directory} is there already; choose another directory")


def _write(rows: DataFrame, partitions: int, directory: Path) -> list[ChunkFacts]:
    """A file per partition; those that came out empty are left out of the numbering."""
    ordered = rows.repartitionByRange(partitions, "time", "place").sortWithinPartitions(
        "time", "place"
    )
    folder = str(directory)

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context, found = TaskContext.get(), list(batches)
        if context is None or not found:
            return
        number = context.partitionId()
        table = pa.Table.from_batches(found)
        facts = write_chunk(chunk_path(Path(folder), number), _columns(table))
        yield pa.record_batch(
            {"number": np.array([number]), "facts": [msgspec.json.encode(facts).decode()]}
        )

    written = sorted(ordered.mapInArrow(write, "number long, facts string").collect())
    for place, row in enumerate(written):
        chunk_path(directory, row["number"]).rename(chunk_path(directory, place))
    return [msgspec.json.decode(row["facts"], type=ChunkFacts) for row in written]


def _columns(table: Any) -> Columns:
    return Columns(*(table.column(name).to_numpy() for name in Columns._fields))
