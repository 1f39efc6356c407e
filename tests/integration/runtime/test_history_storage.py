"""Histories as the storage of a driver: epochs, separate failures, nothing seen too early."""

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event as Gate

import pytest

from epicast.core import ConfigError, EventBatch, EventKind
from epicast.core import Run as Published
from epicast.core.effects import BeginEpoch
from epicast.log import DiskDirectory, GcPolicy, History, LogConfig, split_gc_payload
from epicast.log.directory import DiskFile
from epicast.log.segment import HEADER_BYTES
from epicast.runtime import StorageError
from epicast.runtime.history_storage import HistoryStorage, StreamStore
from epicast.runtime.saved_state import StateFile
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually, node, turns
from tests.unit.wire.samples import Ping

NOW = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
EPOCH = (NOW - 1_262_304_000 * SECOND) // (SECOND // 4)
"""Quarters of a second since 2010."""


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


def batch(
    first: int, count: int = 1, stream: int = 4, epoch: int = 0, runs: Sequence[Published] = ()
) -> EventBatch:
    payloads = [b"%d" % seq for seq in range(first, first + count)]
    return EventBatch.build(stream, first, payloads, epoch=epoch, time=NOW, runs=runs)


def spans(batches: Sequence[EventBatch]) -> list[tuple[int, int]]:
    return [(b.first, b.last) for b in batches]


def no_room(monkeypatch: pytest.MonkeyPatch, stream_folder: Path) -> None:
    """Files in the folder cannot grow from now on."""
    append = DiskFile.append
    full = {os.stat(path).st_ino for path in stream_folder.iterdir()}

    def refuse(self: DiskFile, buffers: Sequence[bytes]) -> None:
        if os.fstat(self._descriptor).st_ino in full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(self, buffers)

    monkeypatch.setattr(DiskFile, "append", refuse)


# -- what is found at the start ------------------------------------------------------------------


def test_everything_in_memory_is_ready_at_once(run: Run) -> None:
    async def main() -> None:
        stores = {4: StreamStore(owned=True), 5: StreamStore()}
        storage = HistoryStorage(stores, wall_clock_ns=Clock())
        found = await storage.recover()
        assert found.incarnation == NOW
        assert found.log_ends == {4: 0, 5: 0}
        assert found.epochs == {4: EPOCH + 1, 5: 0}
        assert storage.commit_now([batch(1, 3, epoch=EPOCH + 1)], {"a": b"1"}) == {}
        assert spans(storage.read_now(4, 2, 1000) or []) == [(2, 3)]
        again = await storage.recover()
        assert again.incarnation > found.incarnation
        assert (again.log_ends[4], again.saved) == (3, {"a": b"1"})

    run(main())


def test_files_are_found_again(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        stores = {4: StreamStore(folder=tmp_path / "4")}
        for start in range(2):
            storage = HistoryStorage(stores, tmp_path, wall_clock_ns=Clock())
            found = await storage.recover()
            if start:
                assert found.incarnation == NOW + 1, "the clock stood still"
                assert found.log_ends == {4: 3}
                assert found.saved == {"a": b"2", "b": b"1"}
                assert found.publishers == {4: {9: 12}}
            else:
                published = batch(1, 3, runs=[Published(9, 10, 3)])
                assert await storage.commit([published], {"a": b"1", "b": b"1"}) == {}
                assert await storage.commit([], {"a": b"2"}) == {}
            await storage.close()

    run(main())


@pytest.mark.parametrize(
    ("sync", "owned", "in_order", "raised"),
    [
        ("memory", True, True, False),
        ("memory", True, False, True),
        ("interval", True, False, True),
        ("disk", True, False, False),
        ("memory", False, False, False),
    ],
)
def test_the_epoch_is_raised_where_events_may_be_lost(
    run: Run, tmp_path: Path, sync: str, owned: bool, in_order: bool, raised: bool
) -> None:
    async def main() -> None:
        clock = Clock()
        config = LogConfig(sync=sync)  # type: ignore[arg-type]
        stores = {4: StreamStore(folder=tmp_path / "4", config=config, owned=owned)}
        storage = HistoryStorage(stores, wall_clock_ns=clock)
        first = await storage.recover()
        assert first.epochs == {4: EPOCH if owned else 0}
        await storage.commit([batch(1, 3, epoch=first.epochs[4])], {})
        if in_order:
            await storage.close()
        else:  # as when a process dies: what was written is there, what closing does is not
            history = storage.history(4)
            history._segments.close()
        clock.now += 50 * SECOND
        second = await HistoryStorage(stores, wall_clock_ns=clock).recover()
        assert second.log_ends == {4: 3}
        assert second.epochs == {4: EPOCH + 4 * 50 if raised else first.epochs[4]}

    run(main())


def test_owners_in_memory_have_an_epoch_each_however_quickly_they_come_back(run: Run) -> None:
    async def main() -> None:
        stores = {4: StreamStore(owned=True)}
        found = [(await HistoryStorage(stores).recover()).epochs[4] for _ in range(4)]
        assert found == sorted(set(found))

    run(main())


def test_an_epoch_in_the_future_is_still_raised(run: Run, tmp_path: Path) -> None:
    history = History(
        DiskDirectory(tmp_path / "4"), 4, epoch=EPOCH + 99, config=LogConfig(sync="memory")
    )
    history.append(batch(1, epoch=EPOCH + 99))
    history._segments.close()

    async def main() -> None:
        store = StreamStore(folder=tmp_path / "4", config=LogConfig(sync="memory"), owned=True)
        found = await HistoryStorage({4: store}, wall_clock_ns=Clock()).recover()
        assert found.epochs == {4: EPOCH + 100}

    run(main())


@pytest.mark.parametrize(
    ("position", "lost"),
    [(HEADER_BYTES + 20, True), (20, True), (-20, False)],
    ids=["an old batch", "the header", "the newest batch"],
)
def test_damage_is_told_from_a_write_that_was_cut_short(
    run: Run, tmp_path: Path, position: int, lost: bool
) -> None:
    """In the one segment there is: nobody closed it, so nothing says how far it went."""

    async def main() -> None:
        clock = Clock()
        stores = {4: StreamStore(folder=tmp_path / "4", owned=True)}
        storage = HistoryStorage(stores, wall_clock_ns=clock)
        await storage.recover()
        await storage.commit([batch(1, epoch=EPOCH), batch(2, epoch=EPOCH)], {})
        storage.history(4)._segments.close()
        segment = next((tmp_path / "4").glob("*.seg"))
        content = bytearray(segment.read_bytes())
        content[position] ^= 1
        segment.write_bytes(content)
        clock.now += SECOND
        found = await HistoryStorage(stores, wall_clock_ns=clock).recover()
        assert found.epochs[4] == EPOCH if not lost else found.epochs[4] >= EPOCH + 4

    run(main())


def test_a_closed_history_that_lost_its_end_gets_a_new_epoch(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock()
        stores = {4: StreamStore(folder=tmp_path / "4", owned=True)}
        storage = HistoryStorage(stores, wall_clock_ns=clock)
        await storage.recover()
        await storage.commit([batch(1, epoch=EPOCH), batch(2, epoch=EPOCH)], {})
        await storage.close()
        segment = next((tmp_path / "4").glob("*.seg"))
        os.truncate(segment, segment.stat().st_size - 3)
        clock.now += SECOND
        found = await HistoryStorage(stores, wall_clock_ns=clock).recover()
        assert (found.log_ends, found.epochs) == ({4: 1}, {4: EPOCH + 4})

    run(main())


def test_problems_of_opening_are_told(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="folder of its own"):
        HistoryStorage({4: StreamStore(folder=tmp_path), 5: StreamStore(folder=tmp_path)})

    async def main() -> None:
        stores = {4: StreamStore(folder=tmp_path / "4")}
        holder = HistoryStorage(stores)
        await holder.recover()
        with pytest.raises(StorageError, match="in use by another process"):
            await HistoryStorage(stores).recover()
        await holder.close()
        (tmp_path / "state").write_bytes(b"rubbish")
        with pytest.raises(StorageError, match="damaged; restore it"):
            await HistoryStorage(stores, tmp_path).recover()
        (tmp_path / "state").unlink()
        await HistoryStorage(stores, tmp_path).recover()

    run(main())


# -- commits -------------------------------------------------------------------------------------


def test_only_an_order_changes_the_epoch_or_forgets_anything(run: Run) -> None:
    async def main() -> None:
        storage = HistoryStorage({4: StreamStore()})
        await storage.recover()
        assert storage.commit_now([BeginEpoch(4, 3, True), batch(1, 5, epoch=3)], {}) == {}
        for first in (1, 6):
            failures = storage.commit_now([batch(first, epoch=7)], {})
            assert failures is not None and not failures[4].stored
            assert "epoch 3" in failures[4].reason
        assert spans(storage.read_now(4, 1, 1 << 20) or []) == [(1, 5)]
        later = [batch(6, epoch=3), BeginEpoch(4, 7, False), batch(1, 2, epoch=7)]
        assert storage.commit_now(later, {}) == {}
        assert spans(storage.read_now(4, 1, 1 << 20) or []) == [(1, 2)]
        assert (await storage.recover()).epochs == {4: 7}
        failures = storage.commit_now([batch(3, epoch=6)], {})
        assert failures is not None and "out of date" in failures[4].reason

    run(main())


def test_streams_fail_separately(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        stores = {stream: StreamStore(folder=tmp_path / str(stream)) for stream in (4, 5)}
        storage = HistoryStorage(stores, tmp_path)
        await storage.recover()
        assert await storage.commit([batch(1), batch(1, stream=5)], {}) == {}
        no_room(monkeypatch, tmp_path / "4")
        failures = await storage.commit([batch(2), batch(2, stream=5)], {"a": b"1"})
        assert list(failures) == [4]
        assert "nothing was appended" in failures[4].reason
        assert "Free some space" in failures[4].reason
        with pytest.raises(StorageError, match="Free some space"):
            await storage.commit([batch(2)], {"a": b"2"})
        monkeypatch.undo()
        failures = await storage.commit([batch(3), batch(3, stream=5)], {})
        assert list(failures) == [4] and "continues at 2" in failures[4].reason
        assert await storage.commit([batch(2), batch(3)], {}) == {}
        found = await storage.recover()
        assert found.log_ends == {4: 3, 5: 3}
        assert found.saved == {"a": b"1"}, "saved although a stream failed, unless all of them did"
        await storage.close()
        assert StateFile(tmp_path).load().saved == {"a": b"1"}

    run(main())


def test_values_that_cannot_be_saved_keep_everything_from_being_appended(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        storage = HistoryStorage({4: StreamStore(folder=tmp_path / "4")}, tmp_path / "values")
        await storage.recover()
        (tmp_path / "values" / "state.tmp").mkdir()
        with pytest.raises(StorageError, match="nothing was saved"):
            await storage.commit([batch(1)], {"a": b"1"})
        (tmp_path / "values" / "state.tmp").rmdir()
        assert await storage.commit([batch(1)], {"a": b"1"}) == {}

    run(main())


def test_a_stream_nobody_declared(run: Run) -> None:
    async def main() -> None:
        storage = HistoryStorage({4: StreamStore()})
        await storage.recover()
        failures = storage.commit_now([batch(1), batch(1, stream=77)], {})
        assert failures is not None and list(failures) == [77]
        assert "no history here" in failures[77].reason
        with pytest.raises(StorageError, match="stream 77 has no history here"):
            storage.read_now(77, 1, 1000)
        with pytest.raises(StorageError, match="stream 77 has no history here"):
            await storage.read(77, 1, 1000)

    run(main())


def hold_syncs(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    sync = DiskFile.sync

    def wait(self: DiskFile) -> None:
        assert gate.wait(20)
        sync(self)

    monkeypatch.setattr(DiskFile, "sync", wait)
    return gate


def test_disk_means_synced_before_anybody_hears_of_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        storage = HistoryStorage({4: StreamStore(folder=tmp_path / "4")})
        await storage.recover()
        await storage.commit([batch(1)], {})
        assert storage.commit_now([batch(2)], {}) is None
        assert storage.read_now(4, 1, 1000) is None
        gate = hold_syncs(monkeypatch)
        committing = asyncio.ensure_future(storage.commit([batch(2)], {}))
        await turns()
        reading = asyncio.ensure_future(storage.read(4, 1, 1000))
        await turns()
        assert not committing.done() and not reading.done()
        gate.set()
        assert await committing == {}
        assert spans(await reading) == [(1, 2)]

    run(main())


def test_a_failed_sync_fails_the_stream_and_hides_what_it_was_for(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        stores = {stream: StreamStore(folder=tmp_path / str(stream)) for stream in (4, 5)}
        storage = HistoryStorage(stores)
        await storage.recover()
        await storage.commit([batch(1, 3), batch(1, 3, stream=5)], {})
        sync = DiskFile.sync
        bad = {os.stat(path).st_ino for path in (tmp_path / "4").iterdir()}

        def fail(self: DiskFile) -> None:
            if os.fstat(self._descriptor).st_ino in bad:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            sync(self)

        monkeypatch.setattr(DiskFile, "sync", fail)
        failures = await storage.commit([batch(4, 2), batch(4, 2, stream=5)], {})
        assert list(failures) == [4] and "open it again" in failures[4].reason
        assert spans(await storage.read(4, 1, 1000)) == [(1, 3)]
        assert spans(await storage.read(5, 1, 1000)) == [(1, 5)]
        monkeypatch.undo()
        with pytest.raises(StorageError, match="open it again"):
            await storage.commit([batch(6)], {})

    run(main())


def test_a_commit_that_is_cancelled_leaves_nothing_half_done(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        storage = HistoryStorage({4: StreamStore(folder=tmp_path / "4")})
        await storage.recover()
        gate = hold_syncs(monkeypatch)
        committing = asyncio.ensure_future(storage.commit([batch(1)], {}))
        await turns()
        committing.cancel()
        await turns()
        assert not committing.done(), "a thread is still at work"
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await committing
        assert await storage.commit([batch(2)], {}) == {}
        await storage.close()

    run(main())


# -- reading and upkeep --------------------------------------------------------------------------


def test_reading_what_retention_dropped_starts_later(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        config = LogConfig(sync="memory", segment_bytes=4096, window_bytes=4096, retain_bytes=8192)
        storage = HistoryStorage({4: StreamStore(folder=tmp_path / "4", config=config)})
        await storage.recover()
        for first in range(1, 2001, 50):
            assert storage.commit_now([batch(first, 50)], {}) == {}
        await storage.maintain(NOW)
        found = storage.read_now(4, 1, 1 << 20)
        assert found
        assert found[0].first == storage.statistics(4).start > 1
        assert found[-1].last == 2000
        assert storage.read_now(4, 2001, 1 << 20) == []

    run(main())


def test_an_interval_is_synced_in_the_background(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        config = LogConfig(sync="interval", sync_interval_ns=SECOND)
        storage = HistoryStorage({4: StreamStore(folder=tmp_path / "4", config=config)})
        await storage.recover()
        assert storage.commit_now([BeginEpoch(4, 1, True), batch(1, epoch=1)], {}) == {}
        await storage.maintain(NOW)
        assert storage.statistics(4).durable_end == 0
        gate = hold_syncs(monkeypatch)
        maintaining = asyncio.ensure_future(storage.maintain(NOW + SECOND))
        await turns()
        assert storage.commit_now([batch(2, epoch=1)], {}) == {}, "appends go on meanwhile"
        assert spans(storage.read_now(4, 1, 1000) or []) == [(1, 2)]
        anew = [BeginEpoch(4, 2, False), batch(1, epoch=2)]
        assert storage.commit_now(anew, {}) is None, "but nothing is removed"
        gate.set()
        await maintaining
        assert storage.statistics(4).durable_end == 1
        assert await storage.commit(anew, {}) == {}
        await storage.close()

    run(main())


def test_maintaining_a_broken_history_is_no_error(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        storage = HistoryStorage({4: StreamStore(folder=tmp_path / "4"), 5: StreamStore()})
        await storage.recover()
        history = storage.history(4)
        history._segments._fail("a test")
        for _ in range(3):
            await storage.maintain(NOW)
        assert caplog.text.count("cannot be maintained") == 1

    run(main())


def test_expiry_is_the_payload_of_a_gc_event(run: Run) -> None:
    async def main() -> None:
        policy = GcPolicy(max_age_ns=SECOND)
        storage = HistoryStorage({4: StreamStore(policy=policy), 5: StreamStore()})
        await storage.recover()
        storage.commit_now([batch(1, 3)], {})
        assert storage.expiry(4, NOW) is None
        assert storage.expiry(5, NOW + 9 * SECOND) is None
        payload = storage.expiry(4, NOW + 9 * SECOND)
        assert payload is not None
        split_gc_payload(payload)
        gc_event = EventBatch.build(4, 4, [payload], kinds=[EventKind.GC], time=NOW)
        assert storage.commit_now([gc_event], {}) == {}
        assert storage.statistics(4).live_events == 1

    run(main())


# -- with a driver -------------------------------------------------------------------------------


def test_a_driver_answers_without_tasks_where_nothing_waits(run: Run) -> None:
    async def main() -> None:
        storage = HistoryStorage({4: StreamStore()})
        async with node(1, storage=storage) as one:
            commits = one.driver._commits
            commits.append(batch(1, 3))
            done: list[str] = []
            commits.afterwards(lambda: done.append("afterwards"))
            commits.submit()
            commits.read(4, 2, 1000, 5)
            commits.read(77, 1, 1000, 6)
            assert [type(answer).__name__ for answer in commits.answers] == [
                "Appended", "Afterwards", "ReadDone", "ReadDone",
            ]  # fmt: skip
            assert commits._writer is None and commits._reader is None
            await eventually(lambda: done)
            assert one.log == [("appended", 4, 3), ("read", 5, [(2, 3)]), ("read", 6, [])]
            assert one.count("drop.read failed") == 1

    run(main())


def test_only_the_stream_that_failed_hears_of_it(run: Run) -> None:
    async def main() -> None:
        storage = HistoryStorage({4: StreamStore(), 5: StreamStore()})
        async with node(2) as two, node(1, [two.peer], storage=storage) as one:
            await eventually(lambda: one.reports(2) == ["up"])
            one.do(
                lambda fx: fx.append(batch(1, stream=5)),
                lambda fx: fx.send_after_append(2, Ping()),
                lambda fx: fx.append(batch(7)),
                lambda fx: fx.append(batch(8)),
                lambda fx: fx.send_after_append(2, Ping()),
            )
            await eventually(lambda: len(one.log) == 3)
            failed, appended = one.log[1:]
            assert failed[:3] == ("append failed", 4, 7) and "continues at 1" in failed[3]
            assert appended == ("appended", 5, 1)
            await eventually(lambda: two.messages() == [Ping()])
            assert one.count("drop.append failed") == 1

    run(main())


@pytest.mark.parametrize("on_disk", [False, True])
def test_nothing_is_appended_behind_a_failure(run: Run, tmp_path: Path, on_disk: bool) -> None:
    async def main() -> None:
        folder = tmp_path / "4" if on_disk else None
        storage = HistoryStorage({4: StreamStore(folder=folder)})
        steps: list[Callable[[], EventBatch]] = [
            lambda: EventBatch.build(4, 1, [b""], keys=[b"k" * 2000]),  # too long
            lambda: batch(2),
            lambda: batch(3),
        ]
        async with node(1, storage=storage) as one:
            for step in steps:
                one.do(lambda fx, step=step: fx.append(step()))
                await turns(5)
            await eventually(lambda: len(one.log) == 3)
            assert [entry[:3] for entry in one.log] == [
                ("append failed", 4, 1), ("append failed", 4, 2), ("append failed", 4, 3),
            ]  # fmt: skip
            one.do(lambda fx: fx.append(batch(1, 2)))
            await eventually(lambda: one.log[-1] == ("appended", 4, 2))

    run(main())


@pytest.mark.parametrize("keeps", [True, False])
def test_an_epoch_that_a_full_disk_refuses_is_told_and_forgets_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    """The order comes in one commit behind a batch of the epoch before, which fails first."""

    async def main() -> None:
        storage = HistoryStorage({4: StreamStore(folder=tmp_path / "4")})
        async with node(1, storage=storage) as one:
            one.do(lambda fx: fx.append(batch(1, 100)))
            await eventually(lambda: one.log == [("appended", 4, 100)])
            no_room(monkeypatch, tmp_path / "4")
            one.do(
                lambda fx: fx.append(batch(101, 5)),
                lambda fx: fx.begin_epoch(4, 9, keeps=keeps),
                lambda fx: fx.append(batch(106 if keeps else 1, 5, epoch=9)),
            )
            await eventually(lambda: len(one.log) == 4 if not keeps else len(one.log) >= 3)
            await turns()
            first = 106 if keeps else 1
            assert [entry[:3] for entry in one.log[1:]] == [
                ("append failed", 4, 101), ("epoch failed", 4, 9), ("append failed", 4, first),
            ]  # fmt: skip
            monkeypatch.undo()
            following = batch(101 if keeps else 1, epoch=9)
            one.do(lambda fx: fx.append(following))
            await eventually(lambda: one.log[-1] == (
                "append failed", 4, following.first, "an append before it failed"
            ))  # fmt: skip
            history = storage.history(4)
            assert (history.epoch, history.start, history.end) == (0, 1, 100)
            if not keeps:  # what was to be forgotten must not come back in a later epoch
                one.do(lambda fx: fx.begin_epoch(4, 10, keeps=True))
                await eventually(lambda: one.log[-1][:3] == ("epoch failed", 4, 10))
                assert history.end == 100
            one.do(
                lambda fx: fx.begin_epoch(4, 9, keeps=keeps),
                lambda fx: fx.append(following),
            )
            await eventually(lambda: one.log[-1] == ("appended", 4, following.last))
            assert (history.epoch, history.end) == (9, following.last)

    run(main())


def test_what_is_set_aside_is_kept_and_named(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        config = LogConfig(segment_bytes=4096, window_bytes=4096)
        storage = HistoryStorage({4: StreamStore(folder=tmp_path / "orders", config=config)})
        await storage.recover()
        for epoch in (0, 1):
            for first in range(1, 200, 20):
                assert await storage.commit([batch(first, 20, epoch=epoch)], {}) == {}
            segments = sorted(path.name for path in (tmp_path / "orders").glob("*.seg"))
            kept = max(name for name in segments if int(name[:20]) <= 150)
            assert await storage.commit([BeginEpoch(4, epoch + 1, False, aside=150)], {}) == {}
            assert str(tmp_path / "orders") in caplog.text and f"{kept}.aside" in caplog.text
            assert storage.statistics(4).end == 0
        aside = sorted(path.name for path in (tmp_path / "orders").glob("*.aside*"))
        wanted = [name for name in segments if name >= kept]
        assert aside == sorted(f"{name}.aside{again}" for name in wanted for again in ("", "2"))
        await storage.close()
        again = HistoryStorage({4: StreamStore(folder=tmp_path / "orders", config=config)})
        found = await again.recover()
        assert (found.log_ends, found.epochs, found.doubtful) == ({4: 0}, {4: 2}, frozenset())
        await again.close()
        # To read segments that were set aside, an operator renames them in another folder.
        (tmp_path / "look").mkdir()
        for name in wanted:
            (tmp_path / "orders" / f"{name}.aside").rename(tmp_path / "look" / name)
        history = History(DiskDirectory(tmp_path / "look"), 4)
        assert (history.start, history.end) == (int(kept[:20]), 200)
        history.close()

    run(main())
