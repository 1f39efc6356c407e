"""What a driver needs of a store of history, and one that forgets when the process ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol as Interface

from epicast.core import EpicastError, EventBatch, Recovered
from epicast.core.effects import Write
from epicast.core.epochs import in_epoch

Failures = Mapping[int, str]
"""Streams of which nothing of what was to be appended was stored, and why."""


class StorageError(EpicastError):
    """Nothing of what was to be stored, or read, could be; the message says why."""


class Storage(Interface):
    """At most one `commit` and one `read` are under way at a time."""

    immediate: bool
    """Whether `commit_now` and `read_now` are worth a try."""

    async def recover(self) -> Recovered:
        """What earlier starts left behind, and the incarnation of this one."""

    async def commit(self, appends: Sequence[Write], saves: Mapping[str, bytes]) -> Failures:
        """Return once all of it is durable, together, but for the streams named in the answer;
        `StorageError` if none of it is."""

    async def read(self, stream: int, first: int, max_bytes: int) -> list[EventBatch]:
        """Batches from `first` on: at least one if there is any, then up to `max_bytes`. They
        begin later than asked if what was asked for is not kept any more."""

    def commit_now(self, appends: Sequence[Write], saves: Mapping[str, bytes]) -> Failures | None:
        """The same at once; None, and nothing was done, if that takes waiting."""

    def read_now(self, stream: int, first: int, max_bytes: int) -> list[EventBatch] | None:
        """The same at once; None if that takes waiting."""

    def release(self, stream: int, seq: int) -> None:
        """What is stored up to a number will stay: it may collect what it does."""


class MemoryStorage:
    """Survives a restart of the driver, not of the process: for tests and simulations."""

    immediate = False

    def __init__(self) -> None:
        self.starts = 0
        self.streams: dict[int, list[EventBatch]] = {}
        self.saved: dict[str, bytes] = {}

    async def recover(self) -> Recovered:
        self.starts += 1
        ends = {stream: batches[-1].last for stream, batches in self.streams.items()}
        epochs = {stream: batches[-1].epoch for stream, batches in self.streams.items()}
        return Recovered(self.starts, ends, dict(self.saved), epochs)

    async def commit(self, appends: Sequence[Write], saves: Mapping[str, bytes]) -> Failures:
        return self.commit_now(appends, saves)

    async def read(self, stream: int, first: int, max_bytes: int) -> list[EventBatch]:
        return self.read_now(stream, first, max_bytes)

    def commit_now(self, appends: Sequence[Write], saves: Mapping[str, bytes]) -> Failures:
        for batch in appends:
            stored = self.streams.setdefault(batch.stream, [])
            if isinstance(batch, EventBatch):
                stored.append(batch)
            elif batch.keeps:
                stored[:] = [in_epoch(each, batch.epoch) for each in stored]
            else:
                stored.clear()
        self.saved.update(saves)
        return {}

    def release(self, stream: int, seq: int) -> None:
        """Nothing is ever collected here."""

    def read_now(self, stream: int, first: int, max_bytes: int) -> list[EventBatch]:
        found: list[EventBatch] = []
        size = 0
        for batch in self.streams.get(stream, ()):
            if batch.last < first:
                continue
            size += batch.wire_size()
            if found and size > max_bytes:
                break
            found.append(batch if batch.first >= first else batch.slice(first, batch.last))
        return found
