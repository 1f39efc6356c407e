"""One event, as the application sees it."""

from enum import IntEnum

from msgspec import Struct


class EventKind(IntEnum):
    """What a row of a batch is. Tombstones have no row: coverage without a row is a tombstone."""

    DATA = 0
    GC = 1


class Event(Struct, frozen=True, gc=False):
    """Bytes with a place in a sequence. Built a whole column at a time, see `EventBatch.events`."""

    stream: int
    seq: int
    key: bytes
    payload: bytes
    time: int
    """Publish time at the owner, wall-clock nanoseconds."""
    kind: int = EventKind.DATA
