"""A disk that forgets what was not synced."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from epicast.core import EventBatch, Recovered
from epicast.core.effects import Write
from epicast.core.epochs import in_epoch


class Commit(Struct):
    """The writes of one step: durable together or not at all."""

    batches: list[Write] = field(default_factory=list)
    saves: dict[str, bytes] = field(default_factory=dict)
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    """What waits for it: sends and deliveries that must not come before the write."""

    def first_writes(self) -> dict[int, Write]:
        """Return the commit's first write to each stream."""
        writes: dict[int, Write] = {}
        for batch in self.batches:
            writes.setdefault(batch.stream, batch)
        return writes

    def firsts(self) -> dict[int, int]:
        """Where the commit begins in each stream it appends to."""
        return {stream: write.first for stream, write in self.first_writes().items()}

    def size(self) -> int:
        return sum(batch.wire_size() for batch in self.batches)


class SimDisk:
    """Commits become durable in order, `sync_ns` after they were made."""

    __slots__ = ("_capacity", "_failed", "_full", "_saved", "_streams", "_used", "pending",
                 "sync_ns")  # fmt: skip

    def __init__(self, sync_ns: int, capacity_bytes: int = 1 << 62) -> None:
        self.sync_ns = sync_ns
        self.pending: list[Commit] = []
        self._capacity = capacity_bytes
        self._used = 0
        """Bytes stored and about to be."""
        self._full = False
        self._failed: dict[int, int] = {}
        """Where streams stopped: nothing behind that is stored before it has been."""
        self._streams: dict[int, list[EventBatch]] = {}
        self._saved: dict[str, bytes] = {}

    def fill(self) -> None:
        """Disk full: nothing more can be appended."""
        self._full = True

    def free(self) -> None:
        """Undo `fill`."""
        self._full = False

    def accept(self, commit: Commit) -> str:
        """Take a commit in, to be synced later; if that cannot be, why not."""
        writes, firsts, size = commit.first_writes(), commit.firsts(), commit.size()
        reason = ""
        if firsts and (self._full or self._used + size > self._capacity):
            reason = "disk full"
        elif any(
            isinstance(write, EventBatch) and write.first > self._failed.get(stream, write.first)
            for stream, write in writes.items()
        ):
            reason = "an append before it failed"
        for stream, first in firsts.items():
            if reason:
                self._failed[stream] = min(first, self._failed.get(stream, first))
            else:
                self._failed.pop(stream, None)
        if not reason:
            self._used += size
            self.pending.append(commit)
        return reason

    def sync(self, commit: Commit) -> dict[int, int]:
        """Make the oldest pending commit durable; the new end of each stream it touches."""
        assert self.pending and self.pending[0] is commit
        del self.pending[0]
        ends: dict[int, int] = {}
        for batch in commit.batches:
            stored = self._streams.setdefault(batch.stream, [])
            if not isinstance(batch, EventBatch):
                kept = stored if batch.keeps else []
                stored[:] = [in_epoch(each, batch.epoch) for each in kept]
                continue
            if stored and batch.epoch > stored[-1].epoch:
                stored.clear()
            stored.append(batch)
            ends[batch.stream] = batch.last
        self._saved.update(commit.saves)
        return ends

    def take_failures(self) -> list[tuple[int, int, str]]:
        """What of the commit synced last could not be written after all: stream, first, reason."""
        return []

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

    def release(self, stream: int, seq: int) -> None:
        """What is stored up to a number will stay. Nothing is ever collected here."""

    def crash(self, *, lose_everything: bool) -> None:
        self._used -= sum(commit.size() for commit in self.pending)
        self.pending.clear()
        self._failed.clear()
        if lose_everything:
            self._used = 0
            self._streams.clear()
            self._saved.clear()

    def saved(self, name: str) -> bytes | None:
        """What was saved under a name, and is on disk."""
        return self._saved.get(name)

    def recovered(self, incarnation: int) -> Recovered:
        ends, epochs, publishers = {}, {}, {}
        for stream, batches in self._streams.items():
            if batches:
                ends[stream], epochs[stream] = batches[-1].last, batches[-1].epoch
                publishers[stream] = {
                    run.publisher: run.first + run.count - 1
                    for batch in batches
                    for run in batch.runs
                }
        return Recovered(incarnation, ends, dict(self._saved), epochs, publishers)
