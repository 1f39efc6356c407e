"""The ways of reading a subscription, and what happens to it meanwhile."""

import asyncio
from itertools import pairwise

import pytest

from epicast.client.errors import Closed, UnknownStream
from epicast.client.items import Item, Reset, Tombstone, Watermark
from epicast.client.stream import DEFAULT_WINDOW_BYTES
from epicast.client.watermarks import WatermarkFile
from epicast.core import ConfigError, Event, EventBatch
from epicast.protocols.sprinkler.notices import NoSuchStream, Restarted
from tests.client.fakes import EPOCH, World, batch, run, turns


def seqs(items: list[Item]) -> list[int]:
    return [item.seq for item in items if isinstance(item, Event)]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (None, (EPOCH, 40)),
        (0, (0, 0)),
        (Watermark(0, 0), (0, 0)),
        (Watermark(EPOCH, 0), (0, 0)),
        (12, (EPOCH, 12)),
        (Watermark(2, 5), (2, 5)),
        ((2, 5), (2, 5)),
    ],
)
def test_where_a_subscription_starts(
    after: Watermark | int | None, expected: tuple[int, int]
) -> None:
    async def main() -> None:
        world = World(prices=40)
        subscription = world.node.stream("prices").subscribe(after)
        assert world.calls("subscribe") == [("subscribe", 1, 7, *expected, DEFAULT_WINDOW_BYTES)]
        assert subscription.watermark == expected
        assert world.driver.wakes == 1
        await world.node.close()

    run(main)


@pytest.mark.parametrize("after", [-1, Watermark(1, -1), "12", 1.5])
def test_where_it_cannot_start(after: int) -> None:
    async def main() -> None:
        world = World()
        with pytest.raises(ConfigError, match="after"):
            world.node.stream("prices").subscribe(after)
        assert world.calls("subscribe") == []
        await world.node.close()

    run(main)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_loop_gets_everything_whatever_the_batches(size: int) -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=0)
        for first in range(1, 2001, size):
            world.deliver(1, batch(first, min(2000, first + size - 1)))
        got: list[int] = []
        async for item in subscription:
            assert isinstance(item, Event)
            assert subscription.watermark.seq == item.seq - 1
            got.append(item.seq)
            if item.seq == 2000:
                break
        assert got == list(range(1, 2001))
        await world.node.close()

    run(main)


def test_leaving_a_loop_closes_the_subscription_and_keeps_the_watermark() -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=0)
        world.deliver(1, batch(1, 10))
        async for item in subscription:
            if isinstance(item, Event) and item.seq == 4:
                break
        await turns()
        assert subscription.closed
        assert world.calls("unsubscribe") == [("unsubscribe", 1)]
        assert subscription.watermark == (EPOCH, 3)
        with pytest.raises(Closed, match="prices"):
            for _ in range(10):
                await subscription.get()
        await world.node.close()

    run(main)


def test_inside_a_block_a_loop_can_be_left_and_continued_otherwise() -> None:
    async def main() -> None:
        world = World()
        async with world.node.stream("prices").subscribe(after=0) as subscription:
            world.deliver(1, batch(1, 10), batch(11, 20))
            async for item in subscription:
                if isinstance(item, Event) and item.seq == 4:
                    break
            await turns()
            assert not subscription.closed
            assert seqs([await subscription.get()]) == [5]
            assert subscription.watermark == (EPOCH, 4)
            assert seqs(await subscription.pull(3)) == [6, 7, 8]
            assert subscription.watermark == (EPOCH, 5)
            item = subscription.get_nowait()
            assert item is not None and seqs([item]) == [9]
            with pytest.raises(Closed, match="item by item"):
                await subscription.next_batch()
            assert seqs(await subscription.pull(100)) == [10]
            async for item in subscription:
                assert seqs([item]) == [11]
                break
        assert subscription.closed
        await world.node.close()

    run(main)


def test_reading_waits_for_what_comes() -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=0)
        assert subscription.get_nowait() is None
        assert await subscription.get(timeout=0.001) is None
        assert await subscription.pull(5, timeout=0.001) == []
        waiting = asyncio.ensure_future(subscription.get())
        await turns()
        assert not waiting.done()
        world.deliver(1, batch(1, 2))
        assert seqs([await waiting]) == [1]
        assert seqs([await subscription.get(timeout=0.001) or Reset(0, Watermark(0, 0))]) == [2]
        await world.node.close()

    run(main)


def test_a_cancelled_wait_loses_nothing() -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=0)
        waiting = asyncio.ensure_future(subscription.get())
        await turns()
        world.deliver(1, batch(1, 1))
        waiting.cancel()
        await turns()
        assert seqs([await subscription.get()]) == [1]
        await world.node.close()

    run(main)


def test_batches_come_whole_and_count_once_the_next_is_asked_for() -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=0)
        made = [batch(1, 5), batch(6, 9, gone=[7]), batch(10, 12)]
        world.deliver(1, *made)
        got: list[EventBatch | Reset] = []
        async for whole in subscription.batches():
            assert isinstance(whole, EventBatch)
            assert subscription.watermark.seq == whole.first - 1
            got.append(whole)
            if whole.last == 12:
                break
        assert got == made
        await turns()
        assert subscription.closed
        await world.node.close()

    run(main)


def test_tombstones_come_as_ranges_or_not_at_all() -> None:
    async def main() -> None:
        world = World()
        prices = world.node.stream("prices")
        full, terse = prices.subscribe(after=0), prices.subscribe(after=0, tombstones=False)
        for number in (1, 2):
            world.deliver(number, batch(1, 5, gone=[4, 5]), batch(6, 9, gone=[6, 8]))
        assert await full.pull() == batch(1, 3).events()
        assert await full.pull() == [
            Tombstone(7, 4, 6), batch(7, 7).events()[0], Tombstone(7, 8, 8), batch(9, 9).events()[0]
        ]  # fmt: skip
        assert seqs(await terse.pull()) == [1, 2, 3]
        assert seqs(await terse.pull()) == [7, 9]
        await world.node.close()

    run(main)


def test_a_loop_over_plenty_lets_others_have_their_turn() -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=0)
        for first in range(1, 50_001, 1000):
            world.deliver(1, batch(first, first + 999))
        others = 0

        async def other() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        async for item in subscription:
            if isinstance(item, Event) and item.seq == 50_000:
                break
        assert others >= 20
        task.cancel()
        await turns()
        await world.node.close()

    run(main)


def test_consumption_is_reported_by_quarters_of_the_window() -> None:
    async def main() -> None:
        world = World()
        one = batch(11, 20).wire_size()
        subscription = world.node.stream("prices").subscribe(after=10, window_bytes=8 * one)
        for first in range(11, 111, 10):
            world.deliver(1, batch(first, first + 9))
        assert world.calls("consumed") == []
        for _ in range(100):
            await subscription.get()
        reports = [call[2] for call in world.calls("consumed")]
        assert reports == [30, 50, 70, 90]
        assert all(right - left == 20 for left, right in pairwise(reports))
        await world.node.close()

    run(main)


def test_a_waiting_batch_does_not_pin_a_large_buffer() -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=0)
        large = batch(1, 20_000)
        world.deliver(1, large.slice(1, 10), large.slice(11, 20))
        batches = [await subscription.next_batch() for _ in range(2)]
        second = batches[1]
        assert isinstance(second, EventBatch)
        assert second.events() == large.slice(11, 20).events()
        assert second.pinned_bytes < 2000
        await world.node.close()

    run(main)


def test_a_restart_comes_between_what_was_before_and_what_is_behind() -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=0)
        world.deliver(1, batch(1, 3))
        # The order in which a driver's step tells: the notice first, then deliveries.
        world.node.on_notice(1, Restarted(7, 9, 0))
        world.deliver(1, batch(4, 5), batch(1, 2, epoch=9))
        got = [await subscription.get() for _ in range(8)]
        reset = Reset(7, Watermark(9, 0))
        assert [i.seq if isinstance(i, Event) else i for i in got] == [1, 2, 3, 4, 5, reset, 1, 2]
        assert subscription.watermark == (9, 1)
        await world.node.close()

    run(main)


def test_a_restart_with_nothing_behind_it_comes_too() -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=Watermark(2, 100))
        world.node.on_notice(1, Restarted(7, 9, 0))
        assert await subscription.get() == Reset(7, Watermark(9, 0))
        assert subscription.watermark == (2, 100)
        assert subscription.get_nowait() is None
        assert subscription.watermark == (9, 0)
        await world.node.close()

    run(main)


def test_numbers_of_an_old_epoch_are_not_reported_as_consumed() -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=0, window_bytes=4)
        world.deliver(1, batch(1, 50))
        world.node.on_notice(1, Restarted(7, 9, 0))
        await turns()
        world.deliver(1, batch(1, 2, epoch=9))
        assert len(await subscription.pull()) == 50
        assert isinstance(await subscription.get(), Reset)
        assert seqs(await subscription.pull()) == [1, 2]
        assert subscription.get_nowait() is None
        assert world.calls("consumed") == [("consumed", 1, 2)]
        await world.node.close()

    run(main)


def test_a_stream_that_is_not_there_ends_the_subscription() -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=0)
        world.node.on_notice(1, NoSuchStream(7))
        with pytest.raises(UnknownStream):
            async for _ in subscription:
                pass
        assert world.calls("unsubscribe") == [("unsubscribe", 1)]
        await world.node.close()

    run(main)


def test_closing_ends_a_loop_that_waits_quietly_and_get_with_an_error() -> None:
    async def main() -> None:
        world = World()
        prices = world.node.stream("prices")
        looped, pulled = prices.subscribe(after=0), prices.subscribe(after=0)

        async def loop() -> int:
            count = 0
            async for _ in looped:
                count += 1
            return count

        looping = asyncio.ensure_future(loop())
        getting = asyncio.ensure_future(pulled.get())
        world.deliver(1, batch(1, 3))
        await turns()
        await looped.close()
        await pulled.close()
        assert await looping == 3
        with pytest.raises(Closed):
            await getting
        await looped.close()
        assert world.calls("unsubscribe") == [("unsubscribe", 1), ("unsubscribe", 2)]
        await world.node.close()

    run(main)


def test_a_failing_node_gives_what_had_arrived_and_then_says_why() -> None:
    async def main() -> None:
        world = World()
        subscription = world.node.stream("prices").subscribe(after=0)
        world.deliver(1, batch(1, 3))
        world.driver.stopped.set_exception(RuntimeError("a broken invariant"))
        await turns()
        got: list[Item] = []
        with pytest.raises(Closed, match="a broken invariant"):
            async for item in subscription:
                got.append(item)
        assert seqs(got) == [1, 2, 3]
        with pytest.raises(Closed, match="a broken invariant"):
            world.node.stream("prices")

    run(main)


def test_staleness_follows_the_heartbeats() -> None:
    async def main() -> None:
        import time

        world = World()
        subscription = world.node.stream("prices").subscribe(after=0)
        assert subscription.staleness() == float("inf")
        world.deliver(1, batch(1, 10))
        long_ago = time.monotonic_ns() - 1_000_000_000_000
        world.heartbeat(long_ago, 10)
        assert subscription.staleness() == float("inf")
        await subscription.pull()
        assert 1000 <= subscription.staleness() < 1600
        world.heartbeat(time.monotonic_ns(), 12)
        assert subscription.staleness() >= 1000
        world.deliver(1, batch(11, 12))
        await subscription.pull()
        assert subscription.staleness() < 600
        await world.node.close()

    run(main)


def test_a_file_resumes_a_subscription(tmp_path: object) -> None:
    async def main() -> None:
        world = World(prices=100)
        path = f"{tmp_path}/seen.json"
        prices = world.node.stream("prices")
        async with prices.subscribe(after=0, resume=WatermarkFile(path)) as subscription:
            world.deliver(1, batch(1, 10))
            await subscription.pull(4)
            await subscription.get()
        async with prices.subscribe(after=0, resume=WatermarkFile(path)) as subscription:
            assert subscription.watermark == (EPOCH, 4)
        assert world.calls("subscribe")[1][2:5] == (7, EPOCH, 4)
        await world.node.close()

    run(main)
