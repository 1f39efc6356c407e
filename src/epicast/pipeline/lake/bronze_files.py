"""A task of the ingestion: the events of a range, from the proxy into a Parquet file.

Events do not pass through Spark's JVM, which would cost more than all the rest: what Spark streams
are ranges, and what comes back are descriptions of files. A file is in the table once the driver
has committed it; until then, and if the attempt is given up, it is nobody's.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, InputPartition

from epicast import EventBatch, Reset, Watermark
from epicast.pipeline.lake.columns import joined, rows_of
from epicast.pipeline.lake.errors import LakeError
from epicast.pipeline.lake.source import EventStreamReader, RangePartition, SourceOptions
from epicast.pipeline.lake.tables import NewFile

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

STAGING = ".staging"
"""Hidden from readers of plain Parquet folders."""
FILES_SPARK = (
    "path string, stream string, part int, rows long, size long, first long, last long, "
    "epoch long, seq long"
)
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 64 << 20
_ENCODING = {
    "use_dictionary": ["epoch", "kind", "time"],
    "column_encoding": {"seq": "DELTA_BINARY_PACKED", "last": "DELTA_BINARY_PACKED"},
    "write_statistics": ["epoch", "seq", "last"],
    "compression": "zstd",
    "compression_level": 1,
    "store_schema": False,
}


class BronzeFilesSource(DataSource):
    """Rows are files. Options as those of `epicast`; and folder, that of the table, and table."""

    @classmethod
    def name(cls) -> str:
        return "epicast_bronze_files"

    def schema(self) -> str:
        return FILES_SPARK

    def streamReader(self, schema: StructType) -> BronzeFilesReader:
        options = self.options
        return BronzeFilesReader(
            SourceOptions.parse(options), options["folder"], options["table"] == "parquet"
        )


class BronzeFilesReader(EventStreamReader):
    def __init__(self, options: SourceOptions, folder: str, staged: bool) -> None:
        super().__init__(options)
        self._folder = folder
        self._staged = staged

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        wanted = partition.wanted
        below = STAGING if self._staged else f"stream={wanted.stream}"
        path = f"{below}/part-{secrets.token_hex(16)}.parquet"
        written = write_file(Path(self._folder), path, self.batches_of(wanted))
        file = NewFile(path, wanted.stream, partition.part, *written)
        yield _described(file, wanted.end)


def write_file(
    folder: Path, path: str, batches: Iterable[EventBatch | Reset]
) -> tuple[int, int, int, int]:
    """Rows, bytes, least and greatest number. There is no file if there are no rows."""
    rows = 0
    first, last = 2**63 - 1, 0
    target = folder / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            writer = None
            for table in _tables(batches):
                if writer is None:
                    writer = pq.ParquetWriter(file, table.schema, **_ENCODING)
                writer.write_table(table, row_group_size=_GROUP_ROWS)
                rows += table.num_rows
                first = min(first, pc.min(table["seq"]).as_py())
                last = max(last, pc.max(table["last"]).as_py())
            if writer is not None:
                writer.close()
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        if not rows:
            target.unlink()
            return 0, 0, 0, 0
    except OSError as error:
        raise LakeError(f"{target} cannot be written: {error.strerror or error}") from error
    return rows, size, first, last


def _tables(batches: Iterable[EventBatch | Reset]) -> Iterator[pa.Table]:
    """As much as goes into one row group, held in memory meanwhile."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in joined(batches):
        found = rows_of(batch)
        waiting.append(found)
        rows += found.num_rows
        size += found.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
            rows = size = 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _described(file: NewFile, end: Watermark) -> pa.RecordBatch:
    row: dict[str, Any] = {
        "path": file.path, "stream": file.stream, "part": file.part, "rows": file.rows,
        "size": file.size, "first": file.first, "last": file.last, "epoch": end.epoch,
        "seq": end.seq,
    }  # fmt: skip
    kinds = {"path": pa.string(), "stream": pa.string(), "part": pa.int32()}
    schema = pa.schema([pa.field(name, kinds.get(name, pa.int64())) for name in row])
    return pa.RecordBatch.from_pylist([row], schema=schema)
