"""Rows of a table as files, written by the tasks that have them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epicast.pipeline.lake.tables import NewFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FILE_BYTES = 128 << 20
"""About how large files are made; before compression."""
_FILES_SPARK = "path string, stream string, rows long, size long, first long, last long"


def write_files(rows: DataFrame, folder: Path, kind: str, label: str) -> list[NewFile]:
    """Files for `StreamTable.replace`. `rows` have a column `stream`, which goes into the names of
    folders, and those of the table. What nobody commits is deleted some day by `forget`."""
    writer = _Writer(str(folder), kind == "parquet", label)
    found = rows.mapInArrow(writer, _FILES_SPARK).collect()
    found.sort(key=lambda row: (row.stream, row.first, row.path))
    return [
        NewFile(row.path, row.stream, part, row.rows, row.size, row.first, row.last)
        for part, row in enumerate(found)
    ]


class _Writer:
    """What a task does."""

    def __init__(self, folder: str, staged: bool, label: str) -> None:
        self._folder = folder
        self._staged = staged
        self._label = label

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        open_files: dict[str, _OpenFile] = {}
        done = []
        for batch in batches:
            for stream, part in by_stream(pa.Table.from_batches([batch])):
                if stream not in open_files:
                    open_files[stream] = self._new_file(stream, part.schema)
                file = open_files[stream]
                file.write(part)
                if file.bytes >= FILE_BYTES:
                    done.append(open_files.pop(stream).close())
        done += [file.close() for file in open_files.values()]
        if done:
            yield pa.RecordBatch.from_pylist(done)

    def _new_file(self, stream: str, schema: pa.Schema) -> _OpenFile:
        folder = "_staged" if self._staged else f"stream={stream}"
        name = f"{folder}/{self._label}-{secrets.token_hex(12)}.parquet"
        return _OpenFile(Path(self._folder), name, stream, schema)


class _OpenFile:
    def __init__(self, folder: Path, name: str, stream: str, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self.bytes = 0
        self._path = folder / name
        self._path.parent.mkdir(parents=True, exist_ok=True)
        numbers = [name for name in ("seq", "last") if name in schema.names]
        self._writer = pq.ParquetWriter(
            self._path, schema, compression="zstd",
            # Nearly consecutive: as differences they take next to nothing, in a dictionary a lot.
            use_dictionary=[name for name in schema.names if name not in numbers],
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        )  # fmt: skip
        self._found: dict[str, Any] = {"path": name, "stream": stream, "rows": 0}
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def write(self, part: pa.Table) -> None:
        import pyarrow.compute as pc

        self._writer.write_table(part)
        self.bytes += part.nbytes
        self._found["rows"] += part.num_rows
        self._firsts.append(pc.min(part["seq"]).as_py())
        last = part["last"] if "last" in part.column_names else part["seq"]
        self._lasts.append(pc.max(last).as_py())

    def close(self) -> dict[str, Any]:
        self._writer.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
        size = self._path.stat().st_size
        return {**self._found, "size": size, "first": min(self._firsts), "last": max(self._lasts)}


def by_stream(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each stream, without that column."""
    import pyarrow.compute as pc

    streams = rows["stream"]
    rest = rows.drop_columns(["stream"])
    for stream in pc.unique(streams).to_pylist():
        part = rest.filter(pc.equal(streams, stream))
        yield stream, part


def with_stream(stream: str, rows: pa.Table) -> list[pa.RecordBatch]:
    """The opposite, as batches."""
    import pyarrow as pa

    names = pa.repeat(pa.scalar(stream, pa.string()), rows.num_rows)
    batches: list[pa.RecordBatch] = rows.add_column(0, "stream", names).to_batches()
    return batches


def partitions_for(stored_bytes: int) -> int:
    """How many tasks to share rows among, so that each fits into a worker's memory."""
    return max(1, -(-stored_bytes // (FILE_BYTES // 4)))
