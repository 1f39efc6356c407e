"""Watermark files: written from the start and by time, never ahead of what was handed out."""

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from epicast.client import reading, subscription, sync
from epicast.client.caller import Caller
from epicast.client.errors import WatermarkFileError
from epicast.client.items import Item, Tombstone, Watermark
from epicast.client.subscription import Subscription
from epicast.client.watermarks import WatermarkFile
from epicast.core import ConfigError, EventBatch
from tests.client.fakes import EPOCH, World, batch, run, turns

Source = AsyncIterator[int]
TRACED = {reading.__file__, subscription.__file__, sync.__file__}


def last(item: Any) -> int:
    """The last number that something handed out covers."""
    return item.last if isinstance(item, (EventBatch, Tombstone)) else item.seq


async def by_loop(subscribed: Subscription) -> Source:
    async for item in subscribed:
        yield last(item)


async def by_get(subscribed: Subscription) -> Source:
    while (item := await subscribed.get(timeout=0.01)) is not None:
        yield last(item)


async def by_get_nowait(subscribed: Subscription) -> Source:
    while (item := subscribed.get_nowait()) is not None:
        yield last(item)


async def by_pull(subscribed: Subscription) -> Source:
    while items := await subscribed.pull(4, timeout=0.01):
        yield last(items[-1])


async def by_batches(subscribed: Subscription) -> Source:
    while (whole := await subscribed.next_batch(0.01)) is not None:
        yield last(whole)


WAYS: dict[str, Callable[[Subscription], Source]] = {
    "loop": by_loop, "get": by_get, "get_nowait": by_get_nowait, "pull": by_pull,
    "batches": by_batches,
}  # fmt: skip


def sync_loop(subscribed: sync.Subscription) -> Iterator[int]:
    for item in subscribed:
        yield last(item)


def sync_pull(subscribed: sync.Subscription) -> Iterator[int]:
    while items := subscribed.pull(4, timeout=0.01):
        yield last(items[-1])


def sync_mixed(subscribed: sync.Subscription) -> Iterator[int]:
    """Each call after each other one."""
    calls: list[Callable[[], Item | None]] = [
        subscribed.get_nowait, partial(subscribed.get, 0.01),
    ]  # fmt: skip
    turn = 0
    while True:
        turn += 1
        if turn % 3 == 0:
            items = subscribed.pull(2, timeout=0.01)
            item = items[-1] if items else None
        else:
            item = calls[turn % 3 - 1]()
        if item is None:
            return
        yield last(item)


def sync_batches(subscribed: sync.Subscription) -> Iterator[int]:
    while (whole := subscribed.next_batch(0.01)) is not None:
        yield last(whole)


SYNC_WAYS: dict[str, Callable[[sync.Subscription], Iterator[int]]] = {
    "loop": sync_loop, "pull": sync_pull, "mixed": sync_mixed, "batches": sync_batches,
}  # fmt: skip


class Observer:
    """Looks at a watermark before each step of the interpreter, as another thread could."""

    def __init__(self) -> None:
        self.handed_out = 0
        self.looks = 0
        self.ahead: list[tuple[int, int]] = []
        self._look: Callable[[], Watermark] = lambda: Watermark(0, 0)

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in TRACED:
            return None
        frame.f_trace_opcodes = True
        seen = self._look().seq
        self.looks += 1
        if seen > self.handed_out:
            self.ahead.append((seen, self.handed_out))
        return self.trace

    def watch(self, subscribed: Subscription) -> None:
        self._look = lambda: subscribed.watermark
        self.follow()

    def follow(self) -> None:
        """Look at what the calling thread does, too."""
        sys.settrace(self.trace)

    def check(self, until: int) -> None:
        assert self.handed_out == until
        assert self.looks > 100
        assert self.ahead == []


BATCHES = (batch(1, 10), batch(11, 11), batch(12, 30, gone=[14, 15, 30]), batch(31, 40))


@pytest.mark.parametrize("way", WAYS)
def test_a_watermark_is_never_ahead_of_what_was_handed_out(way: str) -> None:
    async def main() -> None:
        world, observer = World(), Observer()
        subscribed = world.node.stream("prices").subscribe(after=0)
        world.deliver(1, *BATCHES)
        observer.watch(subscribed)
        try:
            async for seq in WAYS[way](subscribed):
                observer.handed_out = seq
                if seq == 40:
                    break
        finally:
            sys.settrace(None)
        observer.check(40)
        await turns()
        await world.node.close()

    run(main)


@pytest.mark.parametrize("way", SYNC_WAYS)
def test_nor_is_it_where_the_reader_is_another_thread(way: str) -> None:
    caller, observer = Caller(), Observer()
    try:
        world = caller.call(World)
        inner = caller.call(lambda: world.node.stream("prices").subscribe(after=0))
        caller.call(lambda: world.deliver(1, *BATCHES))
        observer.watch(inner)
        caller.call(observer.follow)
        try:
            for seq in SYNC_WAYS[way](sync.Subscription(inner, caller)):
                observer.handed_out = seq
                if seq == 40:
                    break
        finally:
            sys.settrace(None)
            caller.call(lambda: sys.settrace(None))
        observer.check(40)
        caller.wait(world.node.close)
    finally:
        caller.close()


def saved_in_time(path: Path, seq: int) -> None:
    """Wait, without giving the event loop a turn."""
    for _ in range(4000):
        saved = WatermarkFile(path).get("prices")
        assert saved is not None and saved.seq <= seq
        if saved.seq == seq:
            return
        time.sleep(0.005)
    raise AssertionError(f"{saved} is saved after 20 seconds, not {seq}")


@pytest.mark.parametrize("way", WAYS)
def test_it_is_saved_by_time_even_while_the_loop_is_busy(way: str, tmp_path: Path) -> None:
    async def main() -> None:
        world, path = World(), tmp_path / "seen.json"
        file = WatermarkFile(path)
        subscribed = world.node.stream("prices").subscribe(after=0, resume=file, save_every=0.01)
        world.deliver(1, batch(1, 20), batch(21, 40))
        count = 0
        async for _ in WAYS[way](subscribed):
            count += 1
            if count == 2:
                saved_in_time(path, subscribed.watermark.seq)
                assert subscribed.watermark.seq >= 1
                break
        await turns()
        await world.node.close()

    run(main)


@pytest.mark.parametrize(
    ("after", "expected"),
    [(None, Watermark(EPOCH, 40)), (0, Watermark(0, 0)), (12, Watermark(EPOCH, 12))],
)
def test_the_place_where_it_begins_is_saved_when_subscribe_returns(
    after: int | None, expected: Watermark, tmp_path: Path
) -> None:
    async def main() -> None:
        world, path = World(prices=40), tmp_path / "seen.json"
        world.node.stream("prices").subscribe(after, resume=WatermarkFile(path))
        assert WatermarkFile(path).get("prices") == expected
        later = World(prices=99)  # the next run, after this one was killed
        resumed = later.node.stream("prices").subscribe(after, resume=WatermarkFile(path))
        assert resumed.watermark == expected
        await later.node.close()
        await world.node.close()

    run(main)


def test_nothing_is_subscribed_to_if_its_place_cannot_be_saved(tmp_path: Path) -> None:
    async def main() -> None:
        world, folder = World(), tmp_path / "there"
        folder.mkdir()
        file = WatermarkFile(folder / "seen.json")
        folder.rmdir()
        with pytest.raises(WatermarkFileError, match=r"seen\.json cannot be written"):
            world.node.stream("prices").subscribe(resume=file)
        with pytest.raises(ConfigError, match="save_every"):
            world.node.stream("prices").subscribe(resume=file, save_every=-1)
        assert world.calls("subscribe") == []
        await world.node.close()

    run(main)


def test_leaving_a_loop_and_resuming_in_the_same_turn_skips_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        world, file = World(), WatermarkFile(tmp_path / "seen.json")
        prices = world.node.stream("prices")
        world.deliver(1, batch(1, 1))  # nobody's: subscriptions are numbered from 1
        first = prices.subscribe(after=0, resume=file)
        world.deliver(1, batch(1, 200))
        async for item in first:
            if last(item) == 50:
                break
        second = prices.subscribe(resume=file)
        assert second.watermark == (EPOCH, 49)
        world.deliver(2, batch(50, 200))
        assert len(await second.pull(100)) == 100
        await turns(20)  # in which the first is closed
        await second.pull(1)
        await second.close()
        assert first.closed
        assert file.get("prices") == (EPOCH, 149)
        await world.node.close()

    run(main)


def test_closing_the_node_saves_what_was_not_closed(tmp_path: Path) -> None:
    async def main() -> None:
        world, path = World(), tmp_path / "seen.json"
        subscribed = world.node.stream("prices").subscribe(after=0, resume=WatermarkFile(path))
        world.deliver(1, batch(1, 10))
        await subscribed.pull(4)
        await subscribed.get()
        await world.node.close()
        assert WatermarkFile(path).get("prices") == (EPOCH, 4)

    run(main)


LEAVES_ALL_OPEN = """
import asyncio, sys
from epicast.client.watermarks import WatermarkFile
from tests.client.fakes import World, batch

async def main():
    world, file = World(), WatermarkFile(sys.argv[1])
    subscribed = world.node.stream("prices").subscribe(after=0, resume=file, save_every=60)
    world.deliver(1, batch(1, 10))
    await subscribed.pull(4)
    await subscribed.get()

asyncio.run(main())
"""


def test_a_process_that_closes_nothing_saves_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    subprocess.run([sys.executable, "-c", LEAVES_ALL_OPEN, str(path)], check=True, timeout=120)
    assert WatermarkFile(path).get("prices") == (EPOCH, 4)


def test_the_reader_is_told_that_nothing_can_be_saved(tmp_path: Path) -> None:
    async def main() -> None:
        world, folder = World(), tmp_path / "there"
        folder.mkdir()
        file = WatermarkFile(folder / "seen.json")
        subscribed = world.node.stream("prices").subscribe(after=0, resume=file, save_every=0)
        shutil.rmtree(folder)
        with pytest.raises(WatermarkFileError, match=r"seen\.json cannot be written"):
            for first in range(1, 4000):
                world.deliver(1, batch(first, first))
                assert await subscribed.get() is not None
                await asyncio.sleep(0.005)
        folder.mkdir()
        await subscribed.get(timeout=0)
        await subscribed.close()
        assert file.get("prices") == subscribed.watermark
        await world.node.close()

    run(main)


def test_what_is_saved_by_hand_stands_until_the_reader_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        world, file = World(), WatermarkFile(tmp_path / "seen.json")
        prices = world.node.stream("prices")
        subscribed = prices.subscribe(after=0, resume=file, save_every=0)
        world.deliver(1, batch(1, 10))
        await subscribed.pull(6)
        file.save("prices", Watermark(EPOCH, 2))
        time.sleep(0.05)
        again = prices.subscribe(resume=file)
        assert again.watermark == (EPOCH, 2)
        await again.close()
        await subscribed.close()
        assert file.get("prices") == (EPOCH, 2)
        await world.node.close()

    run(main)


def test_several_objects_for_one_file_keep_each_others_streams(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    one, other = WatermarkFile(path), WatermarkFile(path)
    one.save("prices", Watermark(1, 1))
    other.save("audit", Watermark(1, 2))
    one.save("prices", Watermark(1, 3))
    assert other.get("prices") == Watermark(1, 3)
    assert one.get("audit") == Watermark(1, 2)
