"""What bronze is to those who write and read it, whatever keeps its list of files.

A commit adds the files of one batch, all or none, and says up to where every stream is in the table
with them. Committing a batch a second time changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from epicast import Watermark

WATERMARKS = "epicast.watermarks"
"""Metadata of every commit: JSON, {"stream": [epoch, seq], …}."""


class NewFile(Struct, frozen=True):
    """A Parquet file that a task has written; not in the table yet."""

    path: str
    """Below the folder of the table."""
    stream: str
    part: int
    """Among those of one batch."""
    rows: int
    size: int
    first: int
    last: int


class BronzeTable(Protocol):
    def files(self) -> list[str]:
        """Absolute paths."""

    def watermarks(self) -> dict[str, Watermark]: ...

    def last_batch(self) -> int:
        """The newest batch that is in the table; -1 if none is."""

    def commit(
        self, batch: int, files: Sequence[NewFile], watermarks: Mapping[str, Watermark]
    ) -> bool:
        """Whether it was new."""

    def statistics(self) -> dict[str, Any]:
        """version, rows, files, bytes, last_commit (seconds since 1970, or None)."""


def open_bronze(folder: Path, kind: str, app: str) -> BronzeTable:
    if kind == "parquet":
        from epicast.pipeline.lake.parquet_table import ParquetBronze

        return ParquetBronze(folder)
    from epicast.pipeline.lake.delta_table import DeltaBronze

    return DeltaBronze(folder, app)


def write_whole(path: Path, content: bytes) -> None:
    """The file has this content on disk when this returns, or what it had before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
