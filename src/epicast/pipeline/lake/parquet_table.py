"""bronze as plain Parquet files, for readers that know no Delta.

Files are written into a hidden folder and moved into place by their commit, under names that follow
from the batch and the part: a batch that is done again after a crash replaces what the first
attempt had moved. So whoever just reads all files of the folder sees each row once. What is
committed is listed in `_commits/`, one small file per commit, written once the files are in place.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from epicast import Watermark
from epicast.pipeline.lake.errors import NoLake
from epicast.pipeline.lake.tables import NewFile, sync_folder, write_whole

COMMITS = "_commits"


class StoredFile(Struct, frozen=True):
    path: str
    """Below the folder of the table."""
    rows: int
    size: int


class Commit(Struct, frozen=True, kw_only=True):
    """`remove` is for compaction, which replaces files and names no batch."""

    version: int
    batch: int
    """The newest that is in the table."""
    time: float
    add: tuple[StoredFile, ...]
    remove: tuple[str, ...] = ()
    watermarks: dict[str, Watermark]
    compacted: dict[str, Watermark] = {}
    """Up to where compaction applied the streams' own garbage collection."""


class ParquetBronze:
    """Whoever commits holds the lock meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / COMMITS).mkdir(parents=True, exist_ok=True)
        self._stored: dict[str, StoredFile] = {}
        self._written: dict[str, float] = {}
        self._newest: Commit | None = None
        self.refresh()

    @property
    def version(self) -> int:
        return -1 if self._newest is None else self._newest.version

    def refresh(self) -> None:
        """Take notice of commits made since."""
        while (path := self._commit_path(self.version + 1)).exists():
            try:
                commit = msgspec.json.decode(path.read_bytes(), type=Commit)
            except msgspec.MsgspecError as error:
                raise NoLake(f"{path} is no commit of a lake's table: {error}") from error
            self._take(commit)

    def files(self) -> list[str]:
        return [str(self.folder / path) for path in self._stored]

    def watermarks(self) -> dict[str, Watermark]:
        return {} if self._newest is None else dict(self._newest.watermarks)

    def compacted(self) -> dict[str, Watermark]:
        return {} if self._newest is None else dict(self._newest.compacted)

    def stored(self) -> list[StoredFile]:
        return list(self._stored.values())

    def written(self, path: str) -> float:
        """When a file was committed, in seconds since 1970."""
        return self._written[path]

    def last_batch(self) -> int:
        return -1 if self._newest is None else self._newest.batch

    def commit(
        self, batch: int, files: Sequence[NewFile], watermarks: Mapping[str, Watermark]
    ) -> bool:
        with self.locked():
            self.refresh()
            if batch <= self.last_batch():
                return False
            self._put_in_place(batch, files)
            self.append(
                batch,
                [StoredFile(place_of(batch, file), file.rows, file.size) for file in files],
                watermarks=watermarks,
                compacted=self.compacted(),
            )
        return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else commits meanwhile; a process that dies lets go."""
        with (self.folder / COMMITS / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def append(
        self,
        batch: int,
        add: Sequence[StoredFile],
        remove: Sequence[str] = (),
        *,
        watermarks: Mapping[str, Watermark],
        compacted: Mapping[str, Watermark],
    ) -> None:
        """A commit of files that are in place; to be called under the lock, after `refresh`."""
        commit = Commit(
            version=self.version + 1,
            batch=batch,
            time=time.time(),
            add=tuple(add),
            remove=tuple(remove),
            watermarks=dict(watermarks),
            compacted=dict(compacted),
        )
        write_whole(self._commit_path(commit.version), msgspec.json.encode(commit))
        self._take(commit)

    def statistics(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "rows": sum(file.rows for file in self._stored.values()),
            "files": len(self._stored),
            "bytes": sum(file.size for file in self._stored.values()),
            "last_commit": None if self._newest is None else self._newest.time,
        }

    def _put_in_place(self, batch: int, files: Sequence[NewFile]) -> None:
        """Another attempt may have moved other parts of the same batch, and then died."""
        wanted = {self.folder / place_of(batch, file): file for file in files}
        for old in self.folder.glob(f"stream=*/{_batch_name(batch)}-*.parquet"):
            if old not in wanted:
                old.unlink()
        for path, file in wanted.items():
            path.parent.mkdir(exist_ok=True)
            os.replace(self.folder / file.path, path)
        for folder in {path.parent for path in wanted}:
            sync_folder(folder)
        sync_folder(self.folder)

    def _take(self, commit: Commit) -> None:
        self._newest = commit
        for path in commit.remove:
            self._stored.pop(path, None)
            self._written.pop(path, None)
        self._stored.update((file.path, file) for file in commit.add)
        self._written.update((file.path, commit.time) for file in commit.add)

    def _commit_path(self, version: int) -> Path:
        return self.folder / COMMITS / f"{version:020}.json"


def place_of(batch: int, file: NewFile) -> str:
    return f"stream={file.stream}/{_batch_name(batch)}-{file.part:04}.parquet"


def _batch_name(batch: int) -> str:
    return f"batch-{batch:010}"
