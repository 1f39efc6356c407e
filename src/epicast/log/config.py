"""Sizes and limits of a history."""

from __future__ import annotations

from typing import Literal

from epicast.core import Config, ConfigError

MAX_KEY_BYTES = 65535
"""What the index can describe."""


class LogConfig(Config, frozen=True, kw_only=True):
    sync: Literal["memory", "interval", "disk"] = "disk"
    """When an event is stable, that is, when it may be acknowledged and shown to others: as soon as
    it is appended (`memory`: the disk catches up when the system pleases; `interval`: at the latest
    after `sync_interval_ns`), or once it is on disk (`disk`: whoever appends calls `sync`, once for
    as many appends as have gathered)."""
    sync_interval_ns: int = 1_000_000_000
    segment_bytes: int = 64 << 20
    """A segment is closed when the next batch would make it larger. Large enough that a terabyte
    is some ten thousand files, small enough that compaction and retention need not wait long."""
    index_interval_bytes: int = 64 << 10
    """The sparse index has one entry per so many bytes of a segment."""
    window_bytes: int = 1 << 20
    """Read, scanned or rewritten at a time; a larger batch is handled whole."""
    compact_below: float = 0.5
    """A segment is rewritten once its live events would take less than this share of its bytes."""
    compact_lag_segments: int = 0
    """So many of the newest sealed segments are not rewritten yet: where most events are collected
    soon, waiting leaves less to copy."""
    compact_per_append: float = 0.0
    """Bytes of compaction done inside `append` per byte appended, where there is something to
    compact. 0: only when `compact` or `maintain` is called."""
    retain_bytes: int | None = None
    """Drop the oldest segments while all of them take more than this."""
    retain_ns: int | None = None
    """Drop the oldest segments once their newest event is older than this."""
    max_key_bytes: int = 1024
    max_publishers: int = 1 << 16
    """Publishers whose last sequence number is remembered; the least recent ones are forgotten."""
    names_publishers: bool = False
    """Whether batches that reading puts together name publishers as the stored ones do, wherever
    they end, and not only those who have published nothing since: what a replica needs that may
    have to go on from there. Kept by `compact_lag_segments` for the newest segments only."""
    waits_for_release: bool = False
    """Whether events collect others only once `release` has said that they will stay: what a
    replica needs whose newest events may turn out never to have been."""
    max_open_files: int = 128

    def __post_init__(self) -> None:
        for name in ("sync_interval_ns", "index_interval_bytes", "max_publishers"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: {getattr(self, name)} is not at least 1")
        for name in ("segment_bytes", "window_bytes"):
            if not 4096 <= getattr(self, name) <= 1 << 31:
                raise ConfigError(f"{name}: {getattr(self, name)} is not between 4 KiB and 2 GiB")
        if not 0 < self.compact_below < 1:
            raise ConfigError(f"compact_below: {self.compact_below} is not between 0 and 1")
        if self.compact_lag_segments < 0:
            raise ConfigError(f"compact_lag_segments: {self.compact_lag_segments} is negative")
        if self.compact_per_append < 0:
            raise ConfigError(f"compact_per_append: {self.compact_per_append} is negative")
        if not 1 <= self.max_key_bytes <= MAX_KEY_BYTES:
            raise ConfigError(f"max_key_bytes: {self.max_key_bytes} is not 1 to {MAX_KEY_BYTES}")
        if self.max_open_files < 8:
            raise ConfigError(f"max_open_files: {self.max_open_files} is not at least 8")


def in_memory(**changes: object) -> LogConfig:
    """For histories that live in memory: small segments, compacted as they are appended to."""
    chosen: dict[str, object] = {
        "sync": "memory",
        "segment_bytes": 4 << 20,  # from which on memory comes in large pages
        "window_bytes": 256 << 10,
        "compact_lag_segments": 4,
        "compact_per_append": 4.0,
    }
    return LogConfig(**(chosen | changes))  # type: ignore[arg-type]
