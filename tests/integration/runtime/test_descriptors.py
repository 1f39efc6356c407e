"""Files that cannot be opened, at every place where one is: what failed changed nothing, or the
answer says what happened; and the next try goes through."""

from __future__ import annotations

import asyncio
import builtins
import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from epicast.core import EventBatch, EventKind
from epicast.core.effects import BeginEpoch, Write
from epicast.log import GcPolicy, LogConfig, gc_payload, parse
from epicast.runtime import StorageError
from epicast.runtime.history_storage import HistoryStorage, StreamStore
from epicast.runtime.saved_state import StateFile
from epicast.runtime.storage import SAVES, Failures

NOW = 1_700_000_000_000_000_000
ONE, TWO = 4, 5
Step = tuple[Sequence[Write], dict[str, bytes]]


class Openings:
    """Counts files that are opened in a folder, and refuses some."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.refused: range = range(0)
        self.reason = errno.EMFILE
        self._folder = str(folder)
        for module, name in ((os, "open"), (builtins, "open")):
            monkeypatch.setattr(module, name, self._watched(getattr(module, name)))

    def _watched(self, really: Any) -> Any:
        def opened(path: Any, *arguments: Any, **more: Any) -> Any:
            if isinstance(path, (str, Path)) and str(path).startswith(self._folder):
                self.count += 1
                if self.count - 1 in self.refused:
                    raise OSError(self.reason, os.strerror(self.reason), str(path))
            return really(path, *arguments, **more)

        return opened


class Model:
    """A dumb model of a storage: epochs, events and saved values."""

    def __init__(self) -> None:
        self.epochs = {ONE: 0, TWO: 0}
        self.events: dict[int, list[bytes]] = {ONE: [], TWO: []}
        self.saved: dict[str, bytes] = {}

    def write(self, write: Write) -> None:
        if isinstance(write, EventBatch):
            self.events[write.stream] += write.payloads()
            return
        self.epochs[write.stream] = write.epoch
        if not write.keeps:
            self.events[write.stream].clear()

    def take(self, step: Step, failures: Failures | None) -> Step:
        """Note what was done of a step, which is nothing if there is no answer; the rest."""
        writes, saves = step
        rest: list[Write] = []
        done: dict[int, int] = {}
        for write in writes:
            at = done[write.stream] = done.get(write.stream, 0) + 1
            failure = failures.get(write.stream) if failures is not None else None
            if failures is not None and (failure is None or at <= failure.stored):
                self.write(write)
            else:
                rest.append(write)
        if failures is None or SAVES in failures:
            return rest, saves
        self.saved |= saves
        return rest, {}


def batch(stream: int, first: int, count: int, epoch: int = 0, size: int = 300) -> EventBatch:
    payloads = [b"%d/%d " % (epoch, seq) + b"." * size for seq in range(first, first + count)]
    keys = [b"k%d" % (seq % 40) for seq in range(first, first + count)]
    return EventBatch.build(stream, first, payloads, keys=keys, epoch=epoch, time=NOW)


def collecting(stream: int, seq: int, predicate: str) -> EventBatch:
    payload = gc_payload(parse(predicate))
    return EventBatch.build(stream, seq, [payload], kinds=[int(EventKind.GC)], time=NOW)


def steps() -> Iterator[Step]:
    """Segments are rolled and closed again, GC events look at all of history, epochs begin."""
    for first in range(1, 200, 20):
        yield [batch(ONE, first, 20)], {}
    yield [batch(TWO, 1, 30)], {"a": b"1"}
    yield [batch(ONE, 201, 20), batch(TWO, 31, 20)], {"b": b"1"}
    yield [collecting(ONE, 221, "size > 5 and seq < 30")], {}
    yield [collecting(ONE, 222, 'key == "k3" and seq < 60'), batch(ONE, 223, 20)], {"a": b"2"}
    yield [batch(ONE, 243, 5), BeginEpoch(ONE, 7, True), batch(ONE, 248, 5, 7)], {"a": b"3"}
    yield [BeginEpoch(TWO, 3, False), batch(TWO, 1, 25, 3)], {}
    yield [batch(TWO, 26, 25, 3), BeginEpoch(TWO, 4, False)], {"c": b"1"}
    yield [batch(TWO, 1, 5, 4)], {}


CONFIG = LogConfig(segment_bytes=4096, window_bytes=4096, max_open_files=8)


def storage_in(folder: Path) -> HistoryStorage:
    stores = {
        stream: StreamStore(folder=folder / str(stream), config=CONFIG, policy=GcPolicy())
        for stream in (ONE, TWO)
    }
    return HistoryStorage(stores, folder, wall_clock_ns=lambda: NOW)


async def play(
    folder: Path, openings: Openings, refused: range
) -> tuple[Model, HistoryStorage, int]:
    """All steps, some of which fail first; how many files were opened."""
    storage, model = storage_in(folder), Model()
    await storage.recover()
    openings.count, openings.refused = 0, refused
    for step in steps():
        while True:
            failures: Failures | None = None
            with suppress(StorageError):
                failures = await storage.commit(*step)
            step = model.take(step, failures)
            if not step[0] and not step[1]:
                break
            assert openings.count > refused.start, f"{failures} although nothing was refused"
            openings.count = max(openings.count, refused.stop)  # descriptors are free again
    openings.refused = range(0)
    return model, storage, openings.count


def contents(storage: HistoryStorage, stream: int) -> list[bytes]:
    history = storage.history(stream)
    return [p for b in history.read_stored(1, history.end) for p in b.payloads()]


async def check(folder: Path, model: Model, storage: HistoryStorage) -> None:
    """While it is open, and when it is opened again."""
    reads: list[Any] = []
    for again in (False, True):
        for stream in (ONE, TWO):
            history = storage.history(stream)
            assert (history.epoch, history.end) == (
                model.epochs[stream], len(model.events[stream]),
            )  # fmt: skip
            assert again or contents(storage, stream) == model.events[stream]
        await storage.maintain(NOW)  # which compacts
        reads.append([p for b in await storage.read(ONE, 1, 1 << 22) for p in b.payloads()])
        await storage.close()
        assert StateFile(folder).load().saved == model.saved
        storage = storage_in(folder)
        await storage.recover()
    await storage.close()
    assert reads[0] == reads[1], "what is collected does not depend on what failed meanwhile"


@pytest.mark.parametrize("reason", [errno.EMFILE, errno.ENOSPC])
@pytest.mark.parametrize("how_many", [1, 1000])
def test_a_file_that_cannot_be_opened_costs_only_another_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int, how_many: int
) -> None:
    for sync in ("fsync", "fdatasync"):  # which takes its time, and is not what this is about
        monkeypatch.setattr(os, sync, lambda _: None)
    openings = Openings(tmp_path, monkeypatch)
    openings.reason = reason
    _, storage, total = asyncio.run(play(tmp_path / "whole", openings, range(0)))
    asyncio.run(storage.close())
    assert total > 30

    async def try_once(number: int) -> None:
        folder = tmp_path / str(number)
        model, storage, _ = await play(folder, openings, range(number, number + how_many))
        await check(folder, model, storage)

    for number in range(total):
        asyncio.run(try_once(number))
