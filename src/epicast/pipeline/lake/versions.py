"""A table of the lake as a list of files that changes by whole commits, version by version.

bronze, silver and gold are such tables, partitioned by stream, in Delta or as plain Parquet. What
is here reads a version with the watermarks that belong to it, and replaces files by others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from epicast import Watermark
from epicast.pipeline.lake.errors import LakeError
from epicast.pipeline.lake.tables import WATERMARKS, NewFile

if TYPE_CHECKING:
    import pyarrow as pa

COMPACTED = "epicast.compacted"
"""Metadata of compactions: up to where they applied the streams' own garbage collection."""
Marks = dict[str, Watermark]
_marks = msgspec.json.Decoder(Marks)


class TableBusy(LakeError):
    """Somebody else has replaced the same files meanwhile."""


class NoSuchVersion(LakeError):
    """The table has no such version, or not any more."""


class TableFile(Struct, frozen=True):
    path: str
    """Below the folder of the table."""
    stream: str
    rows: int
    size: int
    written: float
    """When it was committed, in seconds since 1970."""


class Snapshot(Struct, frozen=True):
    """One version of a table, and what is known of it."""

    folder: Path
    version: int
    files: tuple[TableFile, ...]
    watermarks: Marks
    compacted: Marks

    def paths(self, streams: Sequence[str] | None = None) -> list[str]:
        return [str(self.folder / f.path) for f in self.files if not streams or f.stream in streams]

    def news_since(self, before: Snapshot) -> tuple[Marks, Marks]:
        """For a table made from this one: of the streams that went on since `before`, how far they
        are here, and how far they were."""
        marks = {s: mark for s, mark in self.watermarks.items() if before.watermarks.get(s) != mark}
        return marks, {s: mark for s, mark in before.watermarks.items() if s in marks}


class StreamTable(Protocol):
    folder: Path

    def snapshot(self, version: int | None = None) -> Snapshot:
        """The newest, unless one is named; `NoSuchVersion`."""

    def ways_back(self) -> Iterator[Snapshot]:
        """The newest version and those from right before a compaction, newest first, as far as
        they can still be read."""

    def replace(
        self,
        base: Snapshot,
        remove: Sequence[TableFile],
        add: Sequence[NewFile],
        *,
        watermarks: Marks | None = None,
        compacted: Marks | None = None,
    ) -> None:
        """All or nothing. `TableBusy` if a file to be removed is not there any more or, with
        watermarks, if somebody else has moved those since `base`."""

    def forget(self, keep_versions: int, older_than_s: float) -> list[str]:
        """Keep the newest few of `ways_back`. Of all other files delete those that are at least so
        old, whether replaced or never in any version."""


def open_table(folder: Path, kind: str, schema: pa.Schema) -> StreamTable:
    """Made if it is not there yet."""
    if kind == "parquet":
        from epicast.pipeline.lake.parquet_versions import ParquetVersions

        return ParquetVersions(folder)
    from epicast.pipeline.lake.delta_versions import DeltaVersions

    return DeltaVersions(folder, schema)


def decoded_marks(text: str) -> Marks:
    return _marks.decode(text)


def encoded_marks(watermarks: Marks | None, compacted: Marks | None) -> dict[str, str]:
    given = ((WATERMARKS, watermarks), (COMPACTED, compacted))
    return {name: msgspec.json.encode(m).decode() for name, m in given if m is not None}
