"""A disk that forgets what was not synced."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from epicast.core import EventBatch, Recovered


class Commit(Struct):
    """The writes of one step: durable together or not at all."""

    batches: list[EventBatch] = field(default_factory=list)
    saves: dict[str, bytes] = field(default_factory=dict)
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    """What waits for it: sends and deliveries that must not come before the write."""


class SimDisk:
    """Commits become durable in order, `sync_ns` after they were made."""

    __slots__ = ("_free_bytes", "_saved", "_streams", "pending", "sync_ns")

    def __init__(self, sync_ns: int, capacity_bytes: int = 1 << 62) -> None:
        self.sync_ns = sync_ns
        self.pending: list[Commit] = []
        self._free_bytes = capacity_bytes
        self._streams: dict[int, list[EventBatch]] = {}
        self._saved: dict[str, bytes] = {}

    def has_room(self, batches: Iterable[EventBatch]) -> bool:
        return sum(batch.wire_size() for batch in batches) <= self._free_bytes

    def fill(self) -> None:
        """Disk full: nothing more can be appended."""
        self._free_bytes = 0

    def free(self, free_bytes: int = 1 << 62) -> None:
        self._free_bytes = free_bytes

    def sync(self, commit: Commit) -> dict[int, int]:
        """Make the oldest pending commit durable; the new end of each stream it touches."""
        assert self.pending and self.pending[0] is commit
        del self.pending[0]
        ends: dict[int, int] = {}
        for batch in commit.batches:
            self._streams.setdefault(batch.stream, []).append(batch)
            self._free_bytes -= batch.wire_size()
            ends[batch.stream] = batch.last
        self._saved.update(commit.saves)
        return ends

    def read(self, stream: int, first: int, max_bytes: int) -> list[EventBatch]:
        """Durable batches from `first` on, at least one if there is any, up to `max_bytes`."""
        found: list[EventBatch] = []
        size = 0
        for batch in self._streams.get(stream, []):
            if batch.last < first:
                continue
            part = batch.slice(first, batch.last) if batch.first < first else batch
            size += part.wire_size()
            if found and size > max_bytes:
                break
            found.append(part)
        return found

    def crash(self, *, lose_everything: bool) -> None:
        self.pending.clear()
        if lose_everything:
            self._streams.clear()
            self._saved.clear()

    def recovered(self, incarnation: int) -> Recovered:
        ends = {stream: batches[-1].last for stream, batches in self._streams.items()}
        return Recovered(incarnation, ends, dict(self._saved))
