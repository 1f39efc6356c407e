"""What a driver needs of a store of history, and one that forgets when the process ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol as Interface

from epicast.core import EpicastError, EventBatch, Recovered
from epicast.core.effects import Write
from epicast.core.epochs import in_epoch
from epicast.log.restarts import Failure

SAVES = -1
"""In place of a stream: values were not saved."""
Failures = Mapping[int, Failure]
"""By stream: which of its writes was not carried out, and none behind it, and why."""


class StorageError(EpicastError):
    """Nothing of what was to be stored, or read, could be; the message says why."""


class Storage(Interface):
    """At most one `commit` and one `read` are under way at a time."""

    immediate: bool
    """Whether `commit_now` and `read_now` are worth a try."""

    async def recover(self) -> Recovered:
        """What earlier starts left behind, and the incarnation of this one."""

    async def commit(self, appends: Sequence[Write], saves: Mapping[str, bytes]) -> Failures:
        """Return once all of it is durable, together, but for what the answer names;
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
        self.epochs: dict[int, int] = {}
        self.saved: dict[str, bytes] = {}

    async def recover(self) -> Recovered:
        self.starts += 1
        ends = {stream: batches[-1].last for stream, batches in self.streams.items() if batches}
        return Recovered(self.starts, ends, dict(self.saved), dict(self.epochs))

    async def commit(self, appends: Sequence[Write], saves: Mapping[str, bytes]) -> Failures:
        return self.commit_now(appends, saves)

    async def read(self, stream: int, first: int, max_bytes: int) -> list[EventBatch]:
        return self.read_now(stream, first, max_bytes)

    def commit_now(self, appends: Sequence[Write], saves: Mapping[str, bytes]) -> Failures:
        failures: dict[int, Failure] = {}
        done: dict[int, int] = {}
        for each in appends:
            stream = each.stream
            stored = self.streams.setdefault(stream, [])
            if stream in failures:
                continue
            if not isinstance(each, EventBatch):
                stored[:] = [in_epoch(batch, each.epoch) for batch in stored if each.keeps]
                self.epochs[stream] = each.epoch
            elif each.epoch == self.epochs.setdefault(stream, 0):
                stored.append(each)
            else:
                reason = f"a batch of epoch {each.epoch} in epoch {self.epochs[stream]}"
                failures[stream] = Failure(reason, done.get(stream, 0))
                continue
            done[stream] = done.get(stream, 0) + 1
        self.saved.update(saves)
        return failures

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
