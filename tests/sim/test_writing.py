"""All keepers of histories write by the same rules: storage on files and in memory, and all
simulated disks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import EventBatch
from epicast.core.effects import BeginEpoch, Write
from epicast.log import GcPolicy, LogConfig
from epicast.runtime.commits import Appended, AppendFailed, Commits, EpochFailed
from epicast.runtime.history_storage import HistoryStorage, StreamStore
from epicast.runtime.limits import Limits
from epicast.sim.disk import Commit, SimDisk
from epicast.sim.history_disk import HistoryDisk
from epicast.sim.log_disk import KeptStream, LogDisk

STREAM = 3
Answer = tuple[Any, ...]
"""A stored stream and its end, or the batch or epoch that failed."""
Keeper = tuple[Callable[[list[Write]], list[Answer]], Callable[[], list[bytes]]]
"""Carries out a group of writes and answers; and gives out what it has."""


class _Recorder:
    node = 1

    def drop(self, reason: str, **_: int) -> None:
        raise AssertionError(reason)


@contextmanager
def service(folder: Path | None) -> Iterator[Keeper]:
    with asyncio.Runner() as runner:
        storage = HistoryStorage({STREAM: StreamStore(folder=folder)})
        runner.run(storage.recover())
        recorder: Any = _Recorder()

        async def write(writes: list[Write]) -> list[Answer]:
            commits.answers.clear()
            for each in writes:
                commits.append(each)
            commits.submit()
            await commits.finish()
            return [_answer_of(each) for each in commits.answers]

        def failed(error: Exception) -> None:
            raise error

        commits = Commits(storage, Limits(), recorder, lambda: None, failed)
        history = storage.history(STREAM)
        yield (
            lambda writes: runner.run(write(writes)),
            lambda: _payloads(history.read(1, 1 << 20)) if history.end else [],
        )
        runner.run(storage.close())


def _answer_of(answer: object) -> Answer:
    if isinstance(answer, Appended):
        return ("stored", answer.seq)
    if isinstance(answer, AppendFailed):
        return ("failed", answer.first)
    assert isinstance(answer, EpochFailed)
    return ("not begun", answer.order)


@contextmanager
def simulated(disk: SimDisk) -> Iterator[Keeper]:
    disk.recovered(1)

    def write(writes: list[Write]) -> list[Answer]:
        commit = Commit(list(writes))
        assert not disk.accept(commit)
        stored: list[Answer] = [("stored", end) for end in disk.sync(commit).values()]
        failed: list[Answer] = [
            ("failed", each.first) if isinstance(each, EventBatch) else ("not begun", each)
            for each, _ in disk.take_failures()
        ]
        return stored + failed

    yield write, lambda: _payloads(disk.read(STREAM, 1, 1 << 20))


def _payloads(batches: list[EventBatch]) -> list[bytes]:
    return [payload for batch in batches for payload in batch.payloads()]


def _log_disk() -> LogDisk:
    kept = KeptStream(policy=GcPolicy(), config=LogConfig(), on_files=True)
    return LogDisk(0, {STREAM: kept}, Random(1), lambda: 1_700_000_000 * 10**9, lambda _: ())


@contextmanager
def keeper(kind: str) -> Iterator[Keeper]:
    if kind == "files":
        with TemporaryDirectory() as folder, service(Path(folder) / "s") as found:
            yield found
    elif kind == "memory":
        with service(None) as found:
            yield found
    else:
        disks: dict[str, Callable[[], SimDisk]] = {
            "sim": lambda: SimDisk(0), "history": lambda: HistoryDisk(0, {}), "log": _log_disk,
        }  # fmt: skip
        with simulated(disks[kind]()) as found:
            yield found


def batch(first: int, count: int, epoch: int) -> EventBatch:
    payloads = [b"%d/%d" % (epoch, seq) for seq in range(first, first + count)]
    return EventBatch.build(STREAM, first, payloads, epoch=epoch)


BATCHES = st.builds(batch, st.integers(1, 9), st.integers(1, 4), st.integers(0, 3))
ORDERS = st.builds(BeginEpoch, st.just(STREAM), st.integers(1, 3), st.booleans())
GROUPS = st.lists(st.lists(st.one_of(BATCHES, BATCHES, ORDERS), min_size=1, max_size=4), max_size=6)


@pytest.mark.parametrize("kind", ["files", "memory", "history", "log"])
@settings(deadline=None, max_examples=60)
@given(groups=GROUPS)
def test_all_keepers_of_histories_answer_alike(kind: str, groups: list[list[Write]]) -> None:
    with keeper(kind) as (write, contents), keeper("sim") as (write_too, contents_too):
        for group in groups:
            assert sorted(write(group), key=repr) == sorted(write_too(group), key=repr)
            assert contents() == contents_too()


@settings(deadline=None, max_examples=300)
@given(groups=GROUPS)
def test_nothing_is_forgotten_unless_that_was_ordered(groups: list[list[Write]]) -> None:
    """And what was ordered to be forgotten, in vain, never comes back in a later epoch."""
    with keeper("sim") as (write, contents):
        before: list[bytes] = []
        doomed: list[bytes] = []
        for group in groups:
            failed = [each[1] for each in write(group) if each[0] == "not begun"]
            begun = [w for w in group if isinstance(w, BeginEpoch) and w not in failed]
            now = contents()
            if not any(not order.keeps for order in begun):
                assert now[: len(before)] == before
            if begun:
                assert not doomed or now[: len(doomed)] != doomed
                doomed = []
            if any(not order.keeps for order in failed):
                doomed = now
            before = now
