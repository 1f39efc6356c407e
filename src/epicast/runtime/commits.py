"""Group commit: while one commit is under way, what later steps append gathers for the next."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from epicast.core import EventBatch
from epicast.runtime.limits import Limits
from epicast.runtime.recorder import Recorder
from epicast.runtime.storage import Storage, StorageError

log = logging.getLogger("epicast.runtime")


class Appended(NamedTuple):
    stream: int
    seq: int


class AppendFailed(NamedTuple):
    stream: int
    first: int
    reason: str


class ReadDone(NamedTuple):
    token: int
    batches: list[EventBatch]


class Afterwards(NamedTuple):
    """A send or delivery that waited for what was appended before it."""

    action: Callable[[], None]


Answer = Appended | AppendFailed | ReadDone | Afterwards


class _Group:
    """Written together."""

    __slots__ = ("afterwards", "appends", "saves", "size")

    def __init__(self) -> None:
        self.appends: list[EventBatch] = []
        self.saves: dict[str, bytes] = {}
        self.afterwards: list[Callable[[], None]] = []
        self.size = 0


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
        self._storage = storage
        self._limits = limits
        self._recorder = recorder
        self._wake = wake
        self._fail = fail
        self._gathering = _Group()
        self._refused = False  # something this step appended
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._reads: deque[tuple[int, int, int, int]] = deque()

    def append(self, batch: EventBatch) -> None:
        size = batch.wire_size()
        if self._storage is None:
            self._refuse(batch, "no disk")
        elif self._bytes and self._bytes + size > self._limits.append_queue_bytes:
            self._refuse(batch, "append queue full")
        else:
            self._bytes += size
            self._gathering.size += size
            self._gathering.appends.append(batch)

    def save(self, name: str, value: bytes) -> None:
        if self._storage is not None:
            self._gathering.saves[name] = value

    def afterwards(self, action: Callable[[], None]) -> None:
        if self._refused:
            self._recorder.drop("append failed")
        else:
            self._gathering.afterwards.append(action)

    def read(self, stream: int, first: int, max_bytes: int, token: int) -> None:
        if self._storage is None or len(self._reads) >= self._limits.max_reads:
            self._recorder.drop("no disk" if self._storage is None else "too many reads")
            self._answer(ReadDone(token, []))
            return
        self._reads.append((stream, first, max_bytes, token))
        if self._reader is None:
            self._reader = asyncio.get_running_loop().create_task(self._read_all(self._storage))

    def submit(self) -> None:
        """The step is over: start to write what it gathered, if nothing is being written."""
        self._refused = False
        gathered = self._gathering
        if self._writer is not None or not (
            gathered.appends or gathered.saves or gathered.afterwards
        ):
            return
        if self._storage is None or not (gathered.appends or gathered.saves):
            self._gathering = _Group()
            for action in gathered.afterwards:
                self._answer(Afterwards(action))
            return
        self._writer = asyncio.get_running_loop().create_task(self._write_all(self._storage))

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

    async def _write_all(self, storage: Storage) -> None:
        try:
            while True:
                group, self._gathering = self._gathering, _Group()
                if not (group.appends or group.saves or group.afterwards):
                    return
                await self._write(storage, group)
        except Exception as error:
            self._fail(error)
        finally:
            self._writer = None

    async def _write(self, storage: Storage, group: _Group) -> None:
        try:
            if group.appends or group.saves:
                await storage.commit(group.appends, group.saves)
        except StorageError as error:
            log.warning("node %d cannot append: %s", self._recorder.node, error)
            firsts: dict[int, int] = {}
            for batch in group.appends:
                firsts.setdefault(batch.stream, batch.first)
            for stream, first in firsts.items():
                self._answer(AppendFailed(stream, first, str(error)))
            for _ in group.afterwards:
                self._recorder.drop("append failed")
        else:
            for stream, end in {batch.stream: batch.last for batch in group.appends}.items():
                self._answer(Appended(stream, end))
            for action in group.afterwards:
                self._answer(Afterwards(action))
        finally:
            self._bytes -= group.size

    async def _read_all(self, storage: Storage) -> None:
        try:
            while self._reads:
                stream, first, max_bytes, token = self._reads.popleft()
                try:
                    batches = await storage.read(stream, first, max_bytes)
                except StorageError as error:
                    log.warning("node %d cannot read: %s", self._recorder.node, error)
                    self._recorder.drop("read failed", stream=stream, first=first)
                    batches = []
                self._answer(ReadDone(token, batches))
        except Exception as error:
            self._fail(error)
        finally:
            self._reader = None

    def _refuse(self, batch: EventBatch, reason: str) -> None:
        self._refused = True
        self._answer(AppendFailed(batch.stream, batch.first, reason))

    def _answer(self, answer: Answer) -> None:
        self.answers.append(answer)
        self._wake()
