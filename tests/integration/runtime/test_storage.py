"""Appends, saves, reads, and what waits for them."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from epicast.core import EventBatch, Recovered
from epicast.runtime import Limits, MemoryStorage, NodeDriver, StorageError
from epicast.runtime.storage import Failures
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually, node, start, turns
from tests.unit.wire.samples import Ping


def batch(first: int, count: int = 1, stream: int = 4) -> EventBatch:
    return EventBatch.build(stream, first, [b"x" * 10] * count)


class SlowStorage(MemoryStorage):
    """Commits when told to; writes down what each commit holds."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.commits: list[tuple[list[int], dict[str, bytes]]] = []
        self.error: Exception | None = None

    async def commit(self, appends: Sequence[EventBatch], saves: Mapping[str, bytes]) -> Failures:
        self.commits.append(([b.first for b in appends], dict(saves)))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await super().commit(appends, saves)


def test_append_save_and_recover(run: Run) -> None:
    async def main() -> None:
        storage = MemoryStorage()
        async with node(1, storage=storage) as one:
            assert one.protocol.recovered == Recovered(1)
            one.do(
                lambda fx: fx.append(batch(1, 3)),
                lambda fx: fx.append(batch(4, 2)),
                lambda fx: fx.append(batch(1, 1, stream=9)),
                lambda fx: fx.save("epoch", b"7"),
            )
            await eventually(lambda: len(one.log) == 2)
            assert one.log == [("appended", 4, 5), ("appended", 9, 1)]
        async with node(1, storage=storage) as one:
            assert one.protocol.recovered == Recovered(
                2, {4: 5, 9: 1}, {"epoch": b"7"}, {4: 0, 9: 0}
            )

    run(main())


def test_nothing_is_sent_before_it_is_durable(run: Run) -> None:
    async def main() -> None:
        storage = SlowStorage()
        delivered: list[EventBatch] = []
        async with (
            node(2) as two,
            node(1, [two.peer], storage=storage, on_delivery=delivered.extend) as one,
        ):
            await eventually(lambda: one.reports(2) == ["up"])
            one.do(
                lambda fx: fx.append(batch(1)),
                lambda fx: fx.send_after_append(2, Ping()),
                lambda fx: fx.deliver_after_append(batch(1)),
            )
            await eventually(lambda: storage.commits)
            await turns()
            assert two.log == [] and delivered == [] and one.log == [("up", 2)]
            storage.gate.set()
            await eventually(lambda: two.messages() == [Ping()])
            assert delivered == [batch(1)]
            assert one.log[1:] == [("appended", 4, 1)]

    run(main())


def test_send_after_append_with_nothing_appended_is_sent_at_once(run: Run) -> None:
    async def main() -> None:
        storage = SlowStorage()
        for options in ({}, {"storage": storage}):
            async with node(2) as two, node(1, [two.peer], **options) as one:
                one.do(lambda fx: fx.send_after_append(2, Ping()))
                await eventually(lambda two=two: two.messages() == [Ping()])
        assert storage.commits == []

    run(main())


def test_later_steps_gather_for_the_next_commit(run: Run) -> None:
    async def main() -> None:
        storage = SlowStorage()
        async with node(2) as two, node(1, [two.peer], storage=storage) as one:
            await eventually(lambda: one.reports(2) == ["up"])
            one.do(lambda fx: fx.append(batch(1)))
            await eventually(lambda: storage.commits)
            for first in (2, 3, 4):
                one.do(lambda fx, first=first: fx.append(batch(first)))
                await turns(3)
            one.do(lambda fx: fx.send_after_append(2, Ping()))
            await turns()
            assert storage.commits == [([1], {})]
            assert two.log == []
            storage.gate.set()
            await eventually(lambda: two.messages() == [Ping()])
            assert storage.commits == [([1], {}), ([2, 3, 4], {})]
            assert one.log[1:] == [("appended", 4, 1), ("appended", 4, 4)]

    run(main())


def test_failed_commit_is_told_and_nothing_follows_it(run: Run) -> None:
    async def main() -> None:
        storage = SlowStorage()
        storage.gate.set()
        storage.error = StorageError("disk full")
        async with node(2) as two, node(1, [two.peer], storage=storage) as one:
            await eventually(lambda: one.reports(2) == ["up"])
            one.do(
                lambda fx: fx.append(batch(1)),
                lambda fx: fx.append(batch(2)),
                lambda fx: fx.send_after_append(2, Ping()),
            )
            await eventually(lambda: one.log[1:] == [("append failed", 4, 1, "disk full")])
            await turns()
            assert two.log == []
            assert one.count("drop.append failed") == 1
            storage.error = None
            one.do(lambda fx: fx.append(batch(1)), lambda fx: fx.send_after_append(2, Ping()))
            await eventually(lambda: two.messages() == [Ping()])
            assert one.log[-1] == ("appended", 4, 1)

    run(main())


class FailingStorage(MemoryStorage):
    """No commit succeeds; each fails when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.failing = asyncio.Semaphore(0)
        self.commits: list[list[int]] = []

    async def commit(self, appends: Sequence[EventBatch], saves: Mapping[str, bytes]) -> Failures:
        self.commits.append([b.first for b in appends])
        await self.failing.acquire()
        raise StorageError("full")


def test_who_tries_again_is_told_even_if_something_later_was_not_tried(run: Run) -> None:
    """Both are in the same commit: what came behind the failure, and what begins where it was."""

    async def main() -> None:
        storage = FailingStorage()
        async with node(1, storage=storage) as one:
            one.do(lambda fx: fx.append(batch(1, 3)))
            await eventually(lambda: storage.commits == [[1]])
            one.do(lambda fx: fx.append(batch(1, stream=9)))
            storage.failing.release()
            await eventually(lambda: storage.commits == [[1], [1]])
            one.do(lambda fx: fx.append(batch(4)), lambda fx: fx.append(batch(1, 3)))
            await turns()
            storage.failing.release()
            await eventually(lambda: len(storage.commits) == 3)
            storage.failing.release()
            await eventually(lambda: len(one.log) == 4)
            assert one.log == [
                ("append failed", 4, 1, "full"),
                ("append failed", 9, 1, "full"),
                ("append failed", 4, 4, "an append before it failed"),
                ("append failed", 4, 1, "full"),
            ]

    run(main())


def test_append_without_storage_fails(run: Run) -> None:
    async def main() -> None:
        async with node(2) as two, node(1, [two.peer]) as one:
            await eventually(lambda: one.reports(2) == ["up"])
            one.do(
                lambda fx: fx.append(batch(1)),
                lambda fx: fx.send_after_append(2, Ping()),
                lambda fx: fx.read(4, 1, 1000, 77),
            )
            await eventually(lambda: len(one.log) == 3)
            await turns()
            assert one.log[1:] == [("append failed", 4, 1, "no disk"), ("read", 77, [])]
            assert two.log == []

    run(main())


def test_append_queue_is_bounded(run: Run) -> None:
    async def main() -> None:
        storage = SlowStorage()
        limits = Limits(append_queue_bytes=200)
        async with node(1, storage=storage, limits=limits) as one:
            for first in (1, 2, 3, 4):
                one.do(lambda fx, first=first: fx.append(batch(first)))
                await turns(3)
            assert ("append failed", 4, 4, "append queue full") in one.log
            storage.gate.set()
            await eventually(lambda: one.log[-1][0] == "appended")
            one.do(lambda fx: fx.append(batch(3)))
            await eventually(lambda: one.log[-1] == ("appended", 4, 3))

    run(main())


def test_reads(run: Run) -> None:
    async def main() -> None:
        async with node(1, storage=MemoryStorage(), limits=Limits(max_reads=2)) as one:
            one.do(lambda fx: fx.append(batch(1, 10)), lambda fx: fx.append(batch(11, 10)))
            await eventually(lambda: one.log)
            one.log.clear()
            one.do(lambda fx: fx.read(4, 5, 1 << 20, 1), lambda fx: fx.read(4, 1, 10, 2))
            await eventually(lambda: len(one.log) == 2)
            assert one.log == [("read", 1, [(5, 10), (11, 20)]), ("read", 2, [(1, 10)])]
            one.log.clear()
            one.do(*(lambda fx, token=token: fx.read(5, 1, 10, token) for token in range(4)))
            await eventually(lambda: len(one.log) == 4)
            assert sorted(entry[1] for entry in one.log) == [0, 1, 2, 3], "each is answered"
            assert one.count("drop.too many reads") == 2

    run(main())


def test_stop_waits_for_the_storage_and_sends_what_depends_on_it(run: Run) -> None:
    async def main() -> None:
        storage = SlowStorage()
        async with node(2) as two:
            one = await start(NodeDriver(1, storage=storage), [two.peer])
            await eventually(lambda: one.reports(2) == ["up"])
            one.do(lambda fx: fx.append(batch(1)), lambda fx: fx.send_after_append(2, Ping()))
            await eventually(lambda: storage.commits)
            stopping = asyncio.ensure_future(one.driver.stop())
            await turns()
            assert not stopping.done()
            storage.gate.set()
            await stopping
            await eventually(lambda: two.messages() == [Ping()])
            assert storage.streams[4] == [batch(1)]

    run(main())


def test_stop_does_not_wait_for_ever(run: Run) -> None:
    async def main() -> None:
        limits = Limits(stop_timeout_ns=50_000_000)
        async with node(1, storage=SlowStorage(), limits=limits) as one:
            one.do(lambda fx: fx.append(batch(1)))
            await turns()
        assert one.count("drop.storage too slow to stop") == 1

    run(main())


def test_storage_with_a_bug_fails_the_node(run: Run) -> None:
    async def main() -> None:
        storage = SlowStorage()
        storage.gate.set()
        storage.error = KeyError("a bug")
        one = await start(NodeDriver(1, storage=storage))
        one.do(lambda fx: fx.append(batch(1)))
        with pytest.raises(KeyError, match="a bug"):
            await one.driver.wait()
        await one.driver.stop()

    run(main())
