"""Versions of a table of plain Parquet files; only the newest can be read.

New files are written below `_staged/` and moved into place under the lock that all commits take.
Files that were replaced are deleted at once: whoever reads the folder without its list would count
their rows twice. What a crash leaves beside the list is deleted by `forget`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from epicast.pipeline.lake.parquet_table import ParquetBronze, StoredFile
from epicast.pipeline.lake.tables import NewFile, sync_folder
from epicast.pipeline.lake.versions import Marks, NoSuchVersion, Snapshot, TableBusy, TableFile


class ParquetVersions:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._table = ParquetBronze(folder)

    def snapshot(self, version: int | None = None) -> Snapshot:
        table = self._table
        table.refresh()
        if version is not None and version != table.version:
            raise NoSuchVersion(
                f"{self.folder} is plain Parquet, of which only version {table.version} is there"
            )
        files = [
            TableFile(f.path, _stream_of(f.path), f.rows, f.size, table.written(f.path))
            for f in table.stored()
        ]
        return Snapshot(
            self.folder, table.version, tuple(files), table.watermarks(), table.compacted()
        )

    def ways_back(self) -> Iterator[Snapshot]:
        yield self.snapshot()

    def replace(
        self,
        base: Snapshot,
        remove: Sequence[TableFile],
        add: Sequence[NewFile],
        *,
        watermarks: Marks | None = None,
        compacted: Marks | None = None,
    ) -> None:
        table = self._table
        with table.locked():
            table.refresh()
            there = {file.path for file in table.stored()}
            overtaken = watermarks is not None and table.version != base.version
            if overtaken or not there.issuperset(file.path for file in remove):
                raise TableBusy(f"{self.folder} was changed by somebody else")
            stored = [self._put_in_place(file) for file in add]
            table.append(
                table.last_batch(),
                stored,
                [file.path for file in remove],
                watermarks=table.watermarks() if watermarks is None else watermarks,
                compacted=table.compacted() if compacted is None else compacted,
            )
        for file in remove:
            (self.folder / file.path).unlink(missing_ok=True)

    def forget(self, keep_versions: int, older_than_s: float) -> list[str]:
        """There are no older versions to keep."""
        with self._table.locked():
            self._table.refresh()
            listed = set(self._table.files())
            # What is staged or in place without being listed belongs to a crash, or to somebody
            # who is at work right now; the age tells them apart.
            oldest = time.time() - older_than_s
            orphans = [
                path
                for path in self.folder.rglob("*.parquet")
                if str(path) not in listed and path.stat().st_mtime < oldest
            ]
            for path in orphans:
                path.unlink()
        return [str(path.relative_to(self.folder)) for path in orphans]

    def _put_in_place(self, file: NewFile) -> StoredFile:
        place = f"stream={file.stream}/{Path(file.path).name}"
        target = self.folder / place
        target.parent.mkdir(exist_ok=True)
        os.replace(self.folder / file.path, target)
        sync_folder(target.parent)
        return StoredFile(place, file.rows, file.size)


def _stream_of(path: str) -> str:
    return path.partition("/")[0].removeprefix("stream=")
