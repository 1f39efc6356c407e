"""Versions of a Delta table, through delta-rs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from epicast.pipeline.lake.tables import WATERMARKS, NewFile
from epicast.pipeline.lake.versions import (
    COMPACTED,
    Marks,
    NoSuchVersion,
    Snapshot,
    TableBusy,
    TableFile,
    encoded_marks,
    newest_marks,
)

if TYPE_CHECKING:
    import pyarrow as pa

_FEW_COMMITS = 64
_HOUR_S = 3600


class DeltaVersions:
    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self._schema = schema
        DeltaTable.create(str(folder), schema, mode="ignore", partition_by=["stream"])

    def snapshot(self, version: int | None = None) -> Snapshot:
        try:
            return self._snapshot(DeltaTable(str(self.folder), version=version))
        except DeltaError as error:
            if version is None:
                raise
            raise NoSuchVersion(
                f"{self.folder} has no version {version}, or not any more: {error}"
            ) from error

    def newest_first(self) -> Iterator[Snapshot]:
        newest = DeltaTable(str(self.folder)).version()
        for version in range(newest, -1, -1):
            try:
                snapshot = self.snapshot(version)
            except NoSuchVersion:
                return
            if all((self.folder / file.path).exists() for file in snapshot.files):
                yield snapshot

    def replace(
        self,
        base: Snapshot,
        remove: Sequence[TableFile],
        add: Sequence[NewFile],
        *,
        watermarks: Marks | None = None,
        compacted: Marks | None = None,
    ) -> None:
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [_add(file, now) for file in add]
        actions += [_remove(file, now) for file in remove]
        properties = CommitProperties(custom_metadata=encoded_marks(watermarks, compacted))
        table = DeltaTable(str(self.folder), version=base.version)
        try:
            table.create_write_transaction(
                actions, "append", self._schema, ["stream"], commit_properties=properties
            )
        except CommitFailedError as error:
            raise TableBusy(f"{self.folder} was changed by somebody else: {error}") from error

    def forget(self, keep_versions: int, older_than_s: float) -> list[str]:
        table = DeltaTable(str(self.folder))
        newest = table.version()
        return table.vacuum(
            retention_hours=int(-(-older_than_s // _HOUR_S)),
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            keep_versions=list(range(max(0, newest - keep_versions + 1), newest + 1)),
        )

    def _snapshot(self, table: DeltaTable) -> Snapshot:
        import pyarrow as pa

        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        files = [
            TableFile(
                unquote(action["path"]),
                action["partition.stream"],
                action["num_records"] or 0,
                action["size_bytes"],
                action["modification_time"] / 1000,
            )
            for action in actions
        ]
        files.sort(key=lambda file: file.path)
        watermarks, compacted = _known(table)
        return Snapshot(self.folder, table.version(), tuple(files), watermarks, compacted)


def _known(table: DeltaTable) -> tuple[Marks, Marks]:
    """Most commits have watermarks, few are compactions: look further back only if need be."""
    limit = _FEW_COMMITS
    while True:
        commits: list[dict[str, Any]] = table.history(limit)
        found = newest_marks(commits, WATERMARKS), newest_marks(commits, COMPACTED)
        if None not in found or len(commits) < limit:
            return found[0] or {}, found[1] or {}
        limit *= 16


def _add(file: NewFile, now: int) -> AddAction:
    import msgspec

    statistics = {
        "numRecords": file.rows,
        "minValues": {"seq": file.first},
        "maxValues": {"seq": file.last},
        "nullCount": {},
    }
    return AddAction(
        file.path,
        file.size,
        {"stream": file.stream},
        now,
        True,
        msgspec.json.encode(statistics).decode(),
    )


def _remove(file: TableFile, now: int) -> RemoveAction:
    return RemoveAction(file.path, True, now, file.size, {"stream": file.stream})
