"""Group commit: while one commit is under way, what later steps append gathers for the next.

A storage that needs no waiting is used at once, and its answers are there when `submit` and `read`
return. Streams fail separately. Once a write of a stream has failed, later ones fail too until it
is tried again: history has no holes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from epicast.core import EventBatch
from epicast.core.effects import BeginEpoch, Write
from epicast.log.restarts import NOT_TRIED, Failure, Stops, to_be_told
from epicast.runtime.limits import Limits
from epicast.runtime.recorder import Recorder
from epicast.runtime.storage import SAVES, Failures, Storage, StorageError

log = logging.getLogger("epicast.runtime")


class Appended(NamedTuple):
    stream: int
    seq: int


class AppendFailed(NamedTuple):
    stream: int
    first: int
    reason: str


class EpochFailed(NamedTuple):
    order: BeginEpoch
    reason: str


class ReadDone(NamedTuple):
    token: int
    batches: list[EventBatch]


class Afterwards(NamedTuple):
    """A send or delivery that waited for what was appended before it."""

    action: Callable[[], None]


Answer = Appended | AppendFailed | EpochFailed | ReadDone | Afterwards


class _Group:
    """Written together."""

    __slots__ = ("afterwards", "appends", "refused", "saves", "size")

    def __init__(self) -> None:
        self.appends: list[Write] = []
        self.refused: set[int] = set()
        """Streams of which something was not even tried."""
        self.saves: dict[str, bytes] = {}
        self.afterwards: list[tuple[Callable[[], None], frozenset[int]]] = []
        """What waits, and the streams it depends on."""
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self.appends or self.saves or self.afterwards)


class Commits:
    """Answers are queued in `answers`, in order, for the next step."""

    def __init__(
        self,
        storage: Storage | None,
        limits: Limits,
        recorder: Recorder,
        wake: Callable[[], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self.answers: deque[Answer] = deque()
        self.in_step = False
        """Whether somebody is about to look at the answers anyway."""
        self._storage = storage
        self._limits = limits
        self._recorder = recorder
        self._wake = wake
        self._fail = fail
        self._gathering = _Group()
        self._refused = False  # something this step appended
        self._touched: dict[int, None] = {}  # streams this step appended to
        self._stops = Stops()
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._reads: deque[tuple[int, int, int, int]] = deque()

    def append(self, batch: Write) -> None:
        size = batch.wire_size()
        if self._storage is None:
            self._refuse(batch, "no disk")
        elif self._bytes and self._bytes + size > self._limits.append_queue_bytes:
            self._refuse(batch, "append queue full")
        else:
            self._bytes += size
            self._gathering.size += size
            self._gathering.appends.append(batch)
            self._touched[batch.stream] = None

    def save(self, name: str, value: bytes) -> None:
        if self._storage is not None:
            self._gathering.saves[name] = value

    def afterwards(self, action: Callable[[], None]) -> None:
        """Do this unless something the step has appended so far fails, or, where it has appended
        nothing, something that is to be written together with this."""
        if self._refused:
            self._recorder.drop("append failed")
            return
        streams = self._touched or {batch.stream: None for batch in self._gathering.appends}
        self._gathering.afterwards.append((action, frozenset(streams)))

    def release(self, stream: int, seq: int) -> None:
        if self._storage is not None:
            self._storage.release(stream, seq)

    def read(self, stream: int, first: int, max_bytes: int, token: int) -> None:
        storage = self._storage
        if storage is None or len(self._reads) >= self._limits.max_reads:
            self._recorder.drop("no disk" if storage is None else "too many reads")
            self._answer(ReadDone(token, []))
            return
        if storage.immediate and self._reader is None:
            try:
                batches = storage.read_now(stream, first, max_bytes)
            except StorageError as error:
                batches = self._nothing_read(error, stream, first)
            if batches is not None:
                self._answer(ReadDone(token, batches))
                return
        self._reads.append((stream, first, max_bytes, token))
        if self._reader is None:
            self._reader = asyncio.get_running_loop().create_task(self._read_all(storage))

    def submit(self) -> None:
        """The step is over: write what it gathered, if nothing is being written."""
        self._refused = False
        self._touched.clear()
        if self._writer is not None or not self._gathering:
            return
        group = self._take()
        storage = self._storage
        if storage is None or not (group.appends or group.saves):
            self._settle(group, {})
            return
        if storage.immediate:
            try:
                failures = storage.commit_now(group.appends, group.saves)
            except StorageError as error:
                failures = self._all_failed(group, error)
            if failures is not None:
                self._settle(group, failures)
                return
        self._writer = asyncio.get_running_loop().create_task(self._write_all(storage, group))

    async def finish(self) -> None:
        """Wait until everything is written and read, but not for too long."""
        tasks = [task for task in (self._writer, self._reader) if task is not None]
        if not tasks:
            return
        _, pending = await asyncio.wait(tasks, timeout=self._limits.stop_timeout_ns / 1e9)
        for task in pending:
            task.cancel()
        if pending:
            self._recorder.drop("storage too slow to stop")
            await asyncio.wait(pending)

    # -- writing ---------------------------------------------------------------------------------

    def _take(self) -> _Group:
        """What has gathered, without what must fail because something before it did."""
        group, self._gathering = self._gathering, _Group()
        if self._stops:
            wanted, group.appends = group.appends, []
            untried: dict[int, list[Write]] = {}
            for write in wanted:
                if self._stops.passes(write):
                    group.appends.append(write)
                else:
                    untried.setdefault(write.stream, []).append(write)
            for stream, writes in untried.items():
                group.refused.add(stream)
                self._answer_failed(writes, NOT_TRIED)
        return group

    def _answer_failed(self, writes: Sequence[Write], reason: str) -> None:
        for write in to_be_told(writes):
            if isinstance(write, BeginEpoch):
                self._answer(EpochFailed(write, reason))
            else:
                self._answer(AppendFailed(write.stream, write.first, reason))

    async def _write_all(self, storage: Storage, group: _Group) -> None:
        try:
            while True:
                try:
                    failures: Failures = {}
                    if group.appends or group.saves:
                        failures = await storage.commit(group.appends, group.saves)
                except StorageError as error:
                    failures = self._all_failed(group, error)
                self._settle(group, failures)
                if not self._gathering:
                    return
                group = self._take()
        except Exception as error:
            self._fail(error)
        finally:
            self._writer = None

    def _all_failed(self, group: _Group, error: StorageError) -> Failures:
        log.warning("node %d cannot append: %s", self._recorder.node, error)
        failure = Failure(str(error))
        return {SAVES: failure} | {write.stream: failure for write in group.appends}

    def _settle(self, group: _Group, failures: Failures) -> None:
        """The group was written, but for some streams; tell everybody."""
        self._bytes -= group.size
        by_stream: dict[int, list[Write]] = {}
        for write in group.appends:
            by_stream.setdefault(write.stream, []).append(write)
        ends: dict[int, int] = {}
        for stream, writes in by_stream.items():
            failure = failures.get(stream)
            stored = writes if failure is None else writes[: failure.stored]
            for write in stored:
                if isinstance(write, EventBatch):
                    ends[stream] = write.last
            if failure is not None:
                group.refused.add(stream)
                if stream in ends:
                    self._answer(Appended(stream, ends.pop(stream)))
                for write in writes[failure.stored :]:
                    self._stops.note(write)
                self._answer_failed(writes[failure.stored :], failure.reason)
        for stream, end in ends.items():
            self._answer(Appended(stream, end))
        for action, streams in group.afterwards:
            if SAVES in failures or not streams.isdisjoint(group.refused):
                self._recorder.drop("append failed")
            else:
                self._answer(Afterwards(action))

    # -- reading ---------------------------------------------------------------------------------

    async def _read_all(self, storage: Storage) -> None:
        try:
            while self._reads:
                stream, first, max_bytes, token = self._reads.popleft()
                try:
                    batches = await storage.read(stream, first, max_bytes)
                except StorageError as error:
                    batches = self._nothing_read(error, stream, first)
                self._answer(ReadDone(token, batches))
        except Exception as error:
            self._fail(error)
        finally:
            self._reader = None

    def _nothing_read(self, error: StorageError, stream: int, first: int) -> list[EventBatch]:
        log.warning("node %d cannot read: %s", self._recorder.node, error)
        self._recorder.drop("read failed", stream=stream, first=first)
        return []

    def _refuse(self, batch: Write, reason: str) -> None:
        self._refused = True
        if self._storage is not None:
            self._stops.note(batch)
        self._answer_failed([batch], reason)

    def _answer(self, answer: Answer) -> None:
        self.answers.append(answer)
        if not self.in_step:
            self._wake()
