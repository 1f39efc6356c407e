"""What a history has and has done."""

from __future__ import annotations

from msgspec import Struct


class Statistics(Struct, frozen=True):
    start: int
    end: int
    durable_end: int
    live_events: int
    collected_events: int
    """Numbers between start and end that are not live."""
    stored_events: int
    """Events in segments: the live ones, and collected ones that compaction has not met yet."""
    live_bytes: int
    """About what the live events would take if nothing else were stored."""
    stored_bytes: int
    segments: int
    index_keys: int
    index_bytes: int
    """Memory of the index: keys, and which numbers are live."""
    appended_batches: int
    appended_events: int
    appended_bytes: int
    syncs: int
    fsyncs: int
    rewrites: int
    """Compactions that came to their end."""
    rewritten_bytes: int
    """Bytes read by compaction."""


class Counters:
    """The parts of the statistics that only ever grow, since the history was opened."""

    __slots__ = ("appended_batches", "appended_bytes", "appended_events", "rewrites",
                 "rewritten_bytes", "syncs")  # fmt: skip

    def __init__(self) -> None:
        self.appended_batches = 0
        self.appended_events = 0
        self.appended_bytes = 0
        self.syncs = 0
        self.rewrites = 0
        self.rewritten_bytes = 0
