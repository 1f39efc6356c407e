"""What is in a log. `docs/evidence.md` says what each column means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import IntEnum, StrEnum

import pyarrow as pa
from msgspec import Struct

from epicast.core import EpicastError

FORMAT = "epicast-evidence/1"
BLOCK_BITS = 20
"""Ranges of subscribers never cross a multiple of 2**BLOCK_BITS: an audit takes block by block."""


class EvidenceError(EpicastError):
    """A log cannot be written or read."""


class Role(StrEnum):
    OWNER = "owner"
    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"


class Kind(IntEnum):
    """Of a row. Which ones there are depends on the role."""

    OPENED = 0
    """A subscription begins at `first`."""
    EVENTS = 1
    """Stored by the owner, or handed to the application."""
    ACKED = 1
    """A publication, by its publisher's own numbers, is stored."""
    TOMBSTONES = 2
    DROPPED = 2
    """The owner keeps nothing below `last` + 1 any more: retention."""
    RESET = 3
    """The stream goes on in `epoch` at `first`."""
    CLOSED = 4
    """The subscription ends behind `last`."""
    END = 255
    """The log was closed in good order after `first` rows."""


class StreamFacts(Struct, frozen=True):
    """What an audit has to know about a stream."""

    name: str
    owner: str
    latest_per_key: bool = False
    last_n: int | None = None
    max_age_ns: int | None = None


class Facts(Struct, frozen=True, kw_only=True):
    """Who writes a log."""

    role: Role
    name: str
    region: str = ""
    geoplex: str = ""
    run: str
    streams: dict[int, StreamFacts] = {}

    @property
    def folder(self) -> str:
        return folder_prefix(self.role, self.name) + self.run

    def metadata(self, file: int, rows_before: int, dropped_rows: int) -> dict[str, str]:
        streams = {
            str(number): {name: getattr(facts, name) for name in facts.__struct_fields__}
            for number, facts in self.streams.items()
        }
        return {
            "format": FORMAT,
            "role": self.role,
            "name": self.name,
            "region": self.region,
            "run": self.run,
            "geoplex": self.geoplex,
            "file": str(file),
            "rows_before": str(rows_before),
            "dropped_rows": str(dropped_rows),
            "streams": json.dumps(streams),
        }


def folder_prefix(role: Role, name: str) -> str:
    """Of the folders of all logs somebody wrote; replicas have a slash in their names."""
    return f"{role}-{name.replace('/', '+')}-"


def _schema(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    place = [("stream", pa.uint64()), ("epoch", pa.uint64()),
             ("first", pa.uint64()), ("last", pa.uint64())]  # fmt: skip
    head: Sequence[tuple[str, pa.DataType]] = [("kind", pa.uint8()), *place]
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in [*head, *columns]])


OWNER = _schema(
    ("time", pa.int64()),
    ("contents", pa.binary()),
    ("keys", pa.binary()),
    ("key_bytes", pa.binary()),
    ("sizes", pa.binary()),
    ("gc", pa.binary()),
    ("runs", pa.binary()),
)
PUBLISHER = _schema(
    ("publisher", pa.uint64()),
    ("below", pa.uint64()),
    ("sent", pa.int64()),
    ("acked", pa.int64()),
    ("content", pa.uint64()),
)
SUBSCRIBER = _schema(("subscription", pa.uint32()), ("time", pa.int64()), ("digest", pa.uint64()))
SCHEMAS = {Role.OWNER: OWNER, Role.PUBLISHER: PUBLISHER, Role.SUBSCRIBER: SUBSCRIBER}
