"""Reading logs, a record batch at a time, with the events of all its rows as columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epicast_checker.format import FORMAT, SCHEMAS, SUFFIX, Collects, FormatError, Role

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
_GATHERED_BYTES = 16 << 20


class LogFile(NamedTuple):
    path: Path
    role: Role
    name: str
    streams: dict[int, tuple[str, Collects]]


class Rows(NamedTuple):
    """Some rows of a log, and what lies inside those that hold events."""

    columns: dict[str, NDArray[np.generic]]
    counts: I64
    """Events in each row."""
    contents: U64
    keys: U64
    """0: none."""

    def column(self, name: str) -> U64:
        return self.columns[name].astype(np.uint64, copy=False)

    @property
    def times(self) -> I64:
        return self.columns["time"].astype(np.int64, copy=False)

    @property
    def kinds(self) -> NDArray[np.uint8]:
        return self.columns["kind"].astype(np.uint8, copy=False)

    def spread(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """A value of each row, for each of its events."""
        return np.repeat(values, self.counts)

    def numbers(self) -> U64:
        """`first`, `first` + 1, … for the events of each row."""
        before = np.cumsum(self.counts) - self.counts
        within = np.arange(len(self.contents), dtype=np.int64) - np.repeat(before, self.counts)
        return np.repeat(self.column("first"), self.counts) + within.astype(np.uint64)


def find_logs(folder: Path) -> list[LogFile]:
    """All below a folder, in the order they were written; but not those that are empty, as when a
    writer was killed before it had anything to write."""
    files = sorted(folder.rglob(f"*{SUFFIX}"))
    found = [_describe(path) for path in files if path.stat().st_size]
    if not found:
        raise FormatError(f"{folder}: there are no logs (*{SUFFIX}) in it")
    return found


def _describe(path: Path) -> LogFile:
    try:
        with pa.OSFile(str(path)) as file:
            schema = pa.ipc.open_stream(file).schema
    except (pa.ArrowInvalid, OSError) as error:
        raise FormatError(f"{path} is no log: {error}") from error
    facts = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    if facts.get("format") != FORMAT:
        raise FormatError(f"{path} has the format {facts.get('format')!r}, expected {FORMAT!r}")
    try:
        role = Role(facts["role"])
        streams = {
            int(number): (entry["name"], Collects(entry["collects"]))
            for number, entry in json.loads(facts["streams"]).items()
        }
        name = facts["name"]
    except (KeyError, ValueError) as error:
        raise FormatError(f"{path}: what it says of itself makes no sense: {error}") from error
    if schema.remove_metadata() != SCHEMAS[role]:
        raise FormatError(f"{path}: not the columns of a {role}'s log")
    return LogFile(path, role, name, streams)


def read(log: LogFile) -> Iterator[Rows]:
    """Up to the end, which is anywhere if the writer was killed. Many small pieces, as of a writer
    that had everything in its file at once, come as few large ones."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in _pieces(log):
        gathered.append(batch)
        size += batch.nbytes
        if size >= _GATHERED_BYTES:
            yield _rows(log, pa.concat_batches(gathered))
            gathered, size = [], 0
    if gathered:
        yield _rows(log, pa.concat_batches(gathered))


def _pieces(log: LogFile) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(log.path)) as file:
        reader = pa.ipc.open_stream(file)
        while True:
            try:
                yield reader.read_next_batch()
            except StopIteration:
                return
            except (pa.ArrowInvalid, OSError):
                return  # half a record batch: its writer was killed


def _rows(log: LogFile, batch: pa.RecordBatch) -> Rows:
    columns = {
        name: batch.column(name).to_numpy(zero_copy_only=False)
        for name in batch.schema.names
        if name not in ("contents", "keys")
    }
    counts, contents = _hashes(log, batch.column("contents"))
    key_counts, keys = _hashes(log, batch.column("keys"))
    keyless = key_counts == 0
    if not np.array_equal(key_counts[~keyless], counts[~keyless]):
        raise FormatError(f"{log.path}: rows with more or fewer keys than events")
    if keyless.any():
        spread = np.zeros(len(contents), dtype=np.uint64)
        spread[np.repeat(~keyless, counts)] = keys
        keys = spread
    return Rows(columns, counts, contents, keys)


def _hashes(log: LogFile, column: pa.LargeBinaryArray) -> tuple[I64, U64]:
    """How many each row has, and all of them."""
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, len(column) + 1, 8 * column.offset)
    lengths = np.diff(offsets)
    if (lengths % 8).any():
        raise FormatError(f"{log.path}: hashes of less than 8 bytes")
    if data is None:
        return lengths // 8, np.empty(0, dtype=np.uint64)
    start, end = int(offsets[0]), int(offsets[-1])
    return lengths // 8, np.frombuffer(data, "<u8", (end - start) // 8, start)
