"""What is in a log."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import pyarrow as pa

FORMAT = "epicast-checker/1"
SUFFIX = ".arrows"


class FormatError(Exception):
    """A file that is no log, or one that contradicts itself."""


class Role(StrEnum):
    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"


class Sent(IntEnum):
    """Kinds of rows of a publisher."""

    SENT = 1
    """Events from number `first` on were handed to the system."""
    ACKED = 2
    """The same events were acknowledged; none of them is above `seq` of `epoch`."""


class Got(IntEnum):
    """Kinds of rows of a subscriber."""

    OPENED = 0
    """A subscription begins at `first`; after a crash of the subscriber it may be one that was
    there before."""
    DATA = 1
    """The events `first` to `last`."""
    TOMBSTONES = 2
    """Tombstones for `first` to `last`."""
    RESET = 3
    """It goes on at `first` of `epoch`."""
    CLOSED = 4
    """The run is over, and everything had time to come: whatever was acknowledged is owed."""
    GC = 5
    """Events that collect others and were published by nobody: numbers, but no contents."""
    LEFT = 6
    """It ended before the run was over, behind `last`: what lies there is not owed."""


class Collects(StrEnum):
    """What makes tombstones of events in a stream."""

    NOTHING = "nothing"
    LATEST_PER_KEY = "latest_per_key"
    ANYTHING = "anything"
    """Explicit predicates: tombstones are believed."""


def _columns(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


PUBLISHER = _columns(
    ("kind", pa.uint8()),
    ("stream", pa.uint64()),
    ("publisher", pa.uint64()),
    ("first", pa.uint64()),
    ("epoch", pa.uint32()),
    ("seq", pa.uint64()),
    ("time", pa.int64()),
    ("contents", pa.large_binary()),
    ("keys", pa.large_binary()),
)
SUBSCRIBER = _columns(
    ("kind", pa.uint8()),
    ("stream", pa.uint64()),
    ("epoch", pa.uint32()),
    ("first", pa.uint64()),
    ("last", pa.uint64()),
    ("time", pa.int64()),
    ("contents", pa.large_binary()),
    ("keys", pa.large_binary()),
)
SCHEMAS = {Role.PUBLISHER: PUBLISHER, Role.SUBSCRIBER: SUBSCRIBER}
