"""Logs as they lie in a folder: read file by file up to the first place that does not fit.

What is behind such a place is no evidence: a log that was cut, or lost a file, is read as far as it
holds together and named as truncated.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from epicast.evidence import EvidenceError, Kind, Role
from epicast.evidence.files import END_OF_STREAM
from epicast.evidence.schema import FORMAT, SCHEMAS, StreamFacts

CHUNK_ROWS = 1 << 18
CHUNK_BYTES = 32 << 20


def find_logs(directory: Path) -> list[Path]:
    """The folders of all logs below a directory, in a fixed order."""
    if not directory.is_dir():
        raise EvidenceError(f"{directory} is not a folder; give the one that holds the logs")
    folders = sorted({file.parent for file in directory.rglob("*.arrow")})
    if not folders:
        raise EvidenceError(
            f"{directory} holds no logs; they are folders such as owner-NAME-RUN with files "
            "000001.arrow and so on"
        )
    for folder in folders:
        if folder.name.partition("-")[0] not in list(Role):
            raise EvidenceError(
                f"{folder} is not the folder of a log: its name does not begin with "
                "owner-, publisher- or subscriber-"
            )
    return folders


class Chunk(NamedTuple):
    """Record batches of one file, as many as are worth a look at once."""

    file: Path
    start: int
    """Rows of the log before it."""
    batches: list[Any]


class Log:
    """One log. What `chunks` has found on its way is there once it has been read to the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.role = Role(folder.name.partition("-")[0])
        self.name = folder.name.partition("-")[2].rpartition("-")[0]
        self.region = ""
        self.streams: dict[int, StreamFacts] = {}
        self.rows = 0
        """Up to where it was read, those of deleted files included."""
        self.truncated = ""
        """Why it is not whole; empty if it is."""
        self.dropped_rows = 0
        """Rows of files that were deleted to save space."""
        self.starts_late = False
        """Whether its first rows are gone, for whatever reason."""
        self.closed_at = 0
        """Until when an owner that closed it knew of all that was stored; 0 if that is not said."""
        self._ended = self._broken = False

    def chunks(self) -> Iterator[Chunk]:
        """All rows in order, without the END row."""
        files = sorted(self.folder.glob("*.arrow"))
        heads = [self._head(file) for file in files]
        self._look_at_start(heads)
        number = heads[0][0] if heads[0] else 1
        for file, head in zip(files, heads, strict=True):
            self._check_chain(file, head, number)
            if not self._broken:
                yield from gathered(file, self.rows, self._batches_of(file))
            if self._broken:
                return
            number += 1
        if not self._ended:
            self._cut(f"it was not closed: no END after row {self.rows}")

    def _look_at_start(self, heads: list[tuple[int, int, int] | None]) -> None:
        readable = [head for head in heads if head is not None]
        if not readable:
            return
        self.dropped_rows = readable[-1][2]
        self.rows = readable[0][1]
        self.starts_late = self.rows > 0
        if self.rows != self.dropped_rows:
            self.truncated = f"{self.rows - self.dropped_rows} rows before its first file are gone"

    def _check_chain(self, file: Path, head: tuple[int, int, int] | None, number: int) -> None:
        if head is None:
            self._cut(f"{file.name} has no readable head")
        elif self._ended:
            self._cut(f"there is {file.name} behind its end")
        elif head[0] != number:
            self._cut(f"{number:06}.arrow is missing")
        elif head[1] != self.rows:
            self._cut(f"{file.name} begins after row {head[1]}, not {self.rows}")

    def _head(self, file: Path) -> tuple[int, int, int] | None:
        """Number, rows before, rows dropped; None if the file is cut within its head."""
        import pyarrow as pa

        try:
            with pa.memory_map(str(file)) as source:
                schema = pa.ipc.open_stream(source).schema
        except (pa.ArrowInvalid, OSError, EOFError):
            return None
        facts = {key.decode(): text.decode() for key, text in (schema.metadata or {}).items()}
        if facts.get("format") != FORMAT:
            raise EvidenceError(
                f"{file} is not evidence: its format is {facts.get('format')!r}, not {FORMAT!r}"
            )
        if facts.get("role") != self.role:
            raise EvidenceError(
                f"{file} is of the role {facts.get('role')!r}, its folder of {str(self.role)!r}"
            )
        _check_columns(file, schema, SCHEMAS[self.role])
        try:
            self.name, self.region = facts["name"], facts["region"]
            streams = msgspec.json.decode(facts["streams"], type=dict[int, StreamFacts])
            self.streams.update(streams)
            return int(facts["file"]), int(facts["rows_before"]), int(facts["dropped_rows"])
        except (KeyError, ValueError, msgspec.ValidationError) as error:
            raise EvidenceError(f"{file}: its head does not say what it must: {error}") from None

    def _batches_of(self, file: Path) -> Iterator[Any]:
        import pyarrow as pa

        with pa.memory_map(str(file)) as source:
            reader = pa.ipc.open_stream(source)
            while True:
                try:
                    batch = reader.read_next_batch()
                    batch.validate()
                except StopIteration:
                    break
                except (pa.ArrowInvalid, OSError) as error:
                    self._cut(f"{file.name} is cut or damaged after row {self.rows} ({error})")
                    return
                batch = self._without_end(batch, file)
                if batch.num_rows:
                    self.rows += batch.num_rows
                    yield batch
                if self._broken:
                    return
        if not _ends_as_stream(file):
            self._cut(f"{file.name} was not closed")

    def _without_end(self, batch: Any, file: Path) -> Any:
        kinds = batch.column("kind").to_numpy()
        if self._ended:
            self._cut(f"{file.name} has rows behind its end")
            return batch.slice(0, 0)
        if not len(kinds) or not (kinds == Kind.END).any():
            return batch
        at = int(np.argmax(kinds == Kind.END))
        said = batch.column("first")[at].as_py()
        self._ended = True
        if self.role == Role.OWNER:
            self.closed_at = batch.column("time")[at].as_py()
        if said != self.rows + at:
            self._cut(f"its END counts {said} rows, there are {self.rows + at}")
        elif at + 1 < len(kinds):
            self._cut(f"{file.name} has rows behind its end")
        return batch.slice(0, at)

    def _cut(self, reason: str) -> None:
        self._broken = True
        self.truncated = reason


def gathered(file: Path, start: int, batches: Iterable[Any]) -> Iterator[Chunk]:
    waiting: list[Any] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield Chunk(file, start, waiting)
            start, waiting, rows, size = start + rows, [], 0, 0
    if waiting:
        yield Chunk(file, start, waiting)


def read_again(file: Path, start: int, rows: int) -> Iterator[Chunk]:
    """So many rows of a file that was found good before."""
    import pyarrow as pa

    def batches() -> Iterator[Any]:
        left = rows
        with pa.memory_map(str(file)) as source:
            reader = pa.ipc.open_stream(source)
            while left:
                batch = reader.read_next_batch()
                batch = batch.slice(0, left)
                left -= batch.num_rows
                yield batch

    yield from gathered(file, start, batches())


def column(batches: list[Any], name: str) -> NDArray[Any]:
    """A column of numbers of all the batches."""
    parts = [batch.column(name).to_numpy(zero_copy_only=False) for batch in batches]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def values(batches: list[Any], name: str) -> NDArray[np.uint8]:
    """The bytes of a binary column, those of all rows one after the other."""
    parts = []
    for batch in batches:
        _, offsets, data = batch.column(name).buffers()
        offset = batch.column(name).offset
        ends = np.frombuffer(offsets, np.int32)[offset : offset + batch.num_rows + 1]
        whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        parts.append(whole[ends[0] : ends[-1]])
    joined: NDArray[np.uint8] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return joined


def value_lengths(batches: list[Any], name: str) -> NDArray[np.int64]:
    parts = []
    for batch in batches:
        offset = batch.column(name).offset
        ends = np.frombuffer(batch.column(name).buffers()[1], np.int32)
        parts.append(np.diff(ends[offset : offset + batch.num_rows + 1]).astype(np.int64))
    return np.concatenate(parts)


def _check_columns(file: Path, schema: Any, expected: Any) -> None:
    for field in expected:
        index = schema.get_field_index(field.name)
        if index < 0:
            raise EvidenceError(f"{file} has no column {field.name!r}")
        if schema.field(index).type != field.type:
            raise EvidenceError(
                f"{file}: column {field.name!r} is {schema.field(index).type}, not {field.type}"
            )


def _ends_as_stream(file: Path) -> bool:
    with open(file, "rb") as opened:
        if opened.seek(0, os.SEEK_END) < len(END_OF_STREAM):
            return False
        opened.seek(-len(END_OF_STREAM), os.SEEK_END)
        return opened.read() == END_OF_STREAM
