"""bronze as a Delta table, through delta-rs: no Java needed to read it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from deltalake import CommitProperties, DeltaTable, Transaction

from epicast import Watermark
from epicast.pipeline.lake.delta_actions import add_action
from epicast.pipeline.lake.schema import bronze_schema
from epicast.pipeline.lake.tables import WATERMARKS, NewFile

_NAME = "epicast bronze"
_watermarks = msgspec.json.Decoder(dict[str, Watermark])


class DeltaBronze:
    """To be used by one thread. `table` is as new as the last commit made here, or `refresh`."""

    def __init__(self, folder: Path, app: str) -> None:
        self.folder = folder
        self._app = app
        self.table = DeltaTable.create(
            str(folder),
            bronze_schema(),
            mode="ignore",
            partition_by=["stream"],
            name=_NAME,
        )

    def refresh(self) -> None:
        self.table.update_incremental()

    def files(self) -> list[str]:
        return self.table.file_uris()

    def watermarks(self) -> dict[str, Watermark]:
        """Those of the newest commit that names any: compaction and the like need not."""
        limit = 1
        while True:
            commits = self.table.history(limit)
            for commit in commits:
                if WATERMARKS in commit:
                    return _watermarks.decode(commit[WATERMARKS])
            if len(commits) < limit:
                return {}
            limit *= 16

    def last_batch(self) -> int:
        version = self.table.transaction_version(self._app)
        return -1 if version is None else version

    def commit(
        self, batch: int, files: Sequence[NewFile], watermarks: Mapping[str, Watermark]
    ) -> bool:
        self.refresh()
        if batch <= self.last_batch():
            return False
        now, schema = int(time.time() * 1000), bronze_schema()
        self.table.create_write_transaction(
            [add_action(file, schema, now) for file in files],
            "append",
            schema,
            ["stream"],
            commit_properties=CommitProperties(
                custom_metadata={WATERMARKS: msgspec.json.encode(watermarks).decode()},
                app_transactions=[Transaction(self._app, batch)],
            ),
        )
        self.refresh()
        return True

    def statistics(self) -> dict[str, Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        actions = pa.table(self.table.get_add_actions(flatten=True))
        newest = self.table.history(1)
        return {
            "version": self.table.version(),
            "rows": pc.sum(actions["num_records"]).as_py() or 0,
            "files": actions.num_rows,
            "bytes": pc.sum(actions["size_bytes"]).as_py() or 0,
            "last_commit": newest[0]["timestamp"] / 1000 if newest else None,
        }
