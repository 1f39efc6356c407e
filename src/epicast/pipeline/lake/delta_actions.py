"""What a commit to a Delta table consists of."""

from __future__ import annotations

import msgspec
import pyarrow as pa
from deltalake.transaction import AddAction, RemoveAction

from epicast.pipeline.lake.tables import NewFile
from epicast.pipeline.lake.versions import TableFile


def add_action(file: NewFile, schema: pa.Schema, now_ms: int) -> AddAction:
    """Readers skip files by these statistics. A row may stand for tombstones up to `last`: only of
    that column is the highest number known to be the maximum, where there is one."""
    statistics = {
        "numRecords": file.rows,
        "minValues": {"seq": file.first},
        "maxValues": {"last" if "last" in schema.names else "seq": file.last},
        "nullCount": {},
    }
    return AddAction(
        file.path,
        file.size,
        {"stream": file.stream},
        now_ms,
        True,
        msgspec.json.encode(statistics).decode(),
    )


def remove_action(file: TableFile, now_ms: int) -> RemoveAction:
    return RemoveAction(file.path, True, now_ms, file.size, {"stream": file.stream})
