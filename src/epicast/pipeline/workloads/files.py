"""Chunks as Parquet files that tell what is in them.

Columns are encoded as what they are: times as differences, keys byte by byte so that their empty
upper bytes vanish, operations and sizes through a dictionary.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from epicast.pipeline.workloads.chunks import Columns, Op
from epicast.pipeline.workloads.errors import WorkloadError

if TYPE_CHECKING:
    import pyarrow as pa

_ABOUT = b"epicast.chunk"
_DIGEST_BYTES = 16
EVENTS = "events"
"""The folder of the files, and of nothing else: any reader of Parquet can be given it."""


class ChunkFacts(Struct, frozen=True):
    """What is known of a chunk without reading it."""

    rows: int
    inserts: int
    deletes: int
    first_time: int
    last_time: int
    lowest_key: int
    highest_key: int
    payload_bytes: int
    digest: str
    """Of the columns, whatever they are stored as."""


def facts_of(columns: Columns) -> ChunkFacts:
    digest = sha256()
    for column in columns:
        digest.update(np.ascontiguousarray(column).data)
    return ChunkFacts(
        rows=len(columns.time),
        inserts=int(np.count_nonzero(columns.op == Op.INSERT)),
        deletes=int(np.count_nonzero(columns.op == Op.DELETE)),
        first_time=int(columns.time[0]),
        last_time=int(columns.time[-1]),
        lowest_key=int(columns.key.min()),
        highest_key=int(columns.key.max()),
        payload_bytes=int(columns.size.sum(dtype=np.int64)),
        digest=digest.hexdigest()[: 2 * _DIGEST_BYTES],
    )


def chunk_path(directory: Path, number: int) -> Path:
    return directory / EVENTS / f"part-{number:06d}.parquet"


def write_chunk(path: Path, columns: Columns) -> ChunkFacts:
    """All or nothing; another attempt of the same task may be writing the same."""
    facts = facts_of(columns)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_columns(partial, columns, {_ABOUT: msgspec.json.encode(facts)})
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise WorkloadError(f"{path}: cannot be written: {reason}") from error
    return facts


def write_columns(target: Any, columns: Columns, metadata: dict[bytes, bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(dict(zip(Columns._fields, columns, strict=True)))
    pq.write_table(
        table.replace_schema_metadata(metadata),
        target,
        row_group_size=1 << 20,
        use_dictionary=["op", "size"],
        column_encoding={"time": "DELTA_BINARY_PACKED", "key": "BYTE_STREAM_SPLIT"},
        compression={"time": "NONE", "key": "ZSTD", "op": "NONE", "size": "NONE"},
        compression_level={"key": 1},
    )


def read_facts(path: Path) -> ChunkFacts:
    with _opened(path) as file:
        about = (file.metadata.metadata or {}).get(_ABOUT)
    if about is None:
        raise WorkloadError(f"{path} is a Parquet file, but not one of a workload")
    return msgspec.json.decode(about, type=ChunkFacts)


def read_columns(path: Path, *names: str) -> tuple[NDArray[Any], ...]:
    """Some columns of a chunk."""
    with _opened(path) as file:
        table = _reading(path, lambda: file.read(columns=list(names), use_threads=False))
    return tuple(table.column(name).to_numpy() for name in names)


def read_batches(path: Path, rows: int) -> Iterator[Columns]:
    with _opened(path) as file:
        batches = file.iter_batches(rows, columns=list(Columns._fields), use_threads=False)
        while (batch := _reading(path, lambda: next(batches, None))) is not None:
            yield Columns(*(batch.column(name).to_numpy() for name in Columns._fields))


def _opened(path: Path) -> pa.parquet.ParquetFile:
    import pyarrow.parquet as pq

    return _reading(path, lambda: pq.ParquetFile(path))


def _reading(path: Path, read: Any) -> Any:
    import pyarrow as pa

    try:
        return read()
    except FileNotFoundError:
        raise WorkloadError(f"{path} is missing") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise WorkloadError(f"{path} is damaged, or was not written to its end: {reason}") from None


def check_free(folder: Path, needed: int, what: str) -> None:
    """`what` takes so many bytes: is there room for it?"""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise WorkloadError(
            f"{folder}: {what} {_size(needed)} and there are {_size(free)}; make room, or choose "
            "another directory"
        )


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
