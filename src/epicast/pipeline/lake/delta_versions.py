"""Versions of a Delta table, through delta-rs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from epicast import Watermark
from epicast.pipeline.lake.delta_actions import add_action, remove_action
from epicast.pipeline.lake.tables import WATERMARKS, NewFile
from epicast.pipeline.lake.versions import (
    COMPACTED,
    Marks,
    NoSuchVersion,
    Snapshot,
    TableBusy,
    TableFile,
    decoded_marks,
    encoded_marks,
)

if TYPE_CHECKING:
    import pyarrow as pa

_PARTS = ("epoch", "seq")
_UPDATE = "epicast.update"
"""Under this name tables are brought up to date: of two who do so at once, one is refused."""
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

    def ways_back(self) -> Iterator[Snapshot]:
        table = DeltaTable(str(self.folder))
        yield self._snapshot(table)
        for version, commit in self._commits(table.version()):
            if COMPACTED not in commit:
                continue
            try:
                snapshot = self.snapshot(version - 1)
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
        actions: list[AddAction | RemoveAction] = [
            add_action(file, self._schema, now) for file in add
        ]
        actions += [remove_action(file, now) for file in remove]
        notes = _compaction_notes(compacted or {})
        if watermarks is not None:
            notes.append(Transaction(_UPDATE, base.version + 1))
        properties = CommitProperties(
            custom_metadata=encoded_marks(watermarks, compacted), app_transactions=notes
        )
        table = DeltaTable(str(self.folder), version=base.version)
        try:
            table.create_write_transaction(
                actions, "append", self._schema, ["stream"], commit_properties=properties
            )
        except CommitFailedError as error:
            raise TableBusy(f"{self.folder} was changed by somebody else: {error}") from error

    def forget(self, keep_versions: int, older_than_s: float) -> list[str]:
        kept = [snapshot.version for snapshot in islice(self.ways_back(), keep_versions)]
        return DeltaTable(str(self.folder)).vacuum(
            retention_hours=int(-(-older_than_s // _HOUR_S)),
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            keep_versions=kept,
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
        watermarks = self._watermarks(table.version())
        compacted = _compacted(table, {*watermarks})
        return Snapshot(self.folder, table.version(), tuple(files), watermarks, compacted)

    def _watermarks(self, version: int) -> Marks:
        """From the newest commit that names any; nearly all do."""
        for _, commit in self._commits(version):
            if WATERMARKS in commit:
                return decoded_marks(commit[WATERMARKS])
        return {}

    def _commits(self, version: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """What is known of a version and those before it, as far as the log goes back.

        From the log itself: what `DeltaTable.history` says of a table that was loaded at a version
        includes newer commits, under wrong numbers.
        """
        for number in range(version, -1, -1):
            try:
                text = (self.folder / "_delta_log" / f"{number:020}.json").read_bytes()
            except FileNotFoundError:
                return
            for line in text.splitlines():
                action = msgspec.json.decode(line)
                if "commitInfo" in action:
                    yield number, action["commitInfo"]
                    break


def _compaction_notes(compacted: Marks) -> list[Transaction]:
    """A Delta table remembers a number per application: for every version, and for good."""
    return [
        Transaction(f"{COMPACTED}.{part}/{stream}", number)
        for stream, mark in compacted.items()
        for part, number in zip(_PARTS, mark, strict=True)
    ]


def _compacted(table: DeltaTable, streams: set[str]) -> Marks:
    found = {}
    for stream in streams:
        epoch, seq = (table.transaction_version(f"{COMPACTED}.{part}/{stream}") for part in _PARTS)
        if epoch is not None and seq is not None:
            found[stream] = Watermark(epoch, seq)
    return found
