"""Every kind of client of a geoplex, attached everywhere, with what each was told and got."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import ClassVar

import epicast
from epicast import Event, sync
from epicast.client import WatermarkFile
from epicast.core import EventBatch
from tests.geo.support import eventually_true
from tests.integration.endings.stage import STREAMS, Stage

WITHIN_S = 30.0
"""After a process is back: publishers are answered and subscribers have caught up. On an idle
machine it takes one or two seconds."""
_PAUSE_S = 0.05


class Publisher(ABC):
    """Publishes its own numbers, one after the other, to each of the streams."""

    way: ClassVar[str]

    def __init__(self, name: str, address: str) -> None:
        self.name = f"{name} {self.way}"
        self.address = address
        self.answered = dict.fromkeys(STREAMS, 0)
        """The last number that was acknowledged; all before were."""
        self.newest = dict.fromkeys(STREAMS, 0)
        """The highest number of the stream that was acknowledged."""

    def payload(self, number: int) -> bytes:
        return f"{self.name}:{number}".encode()

    def note(self, stream: str, number: int, seq: int) -> None:
        self.newest[stream] = max(self.newest[stream], seq)
        self.answered[stream] = number

    @abstractmethod
    async def run(self, over: threading.Event) -> None: ...

    async def give_up(self) -> None:
        """End what the cancelled task has left waiting."""
        return


class AsyncPublisher(Publisher):
    way = "publish"

    async def run(self, over: threading.Event) -> None:
        async with epicast.connect(self.address, agent=False, timeout=WITHIN_S) as node:
            number = 0
            while not over.is_set():
                number += 1
                for name in STREAMS:
                    seq = await node.stream(name).publish(self.payload(number))
                    self.note(name, number, seq)
                await asyncio.sleep(_PAUSE_S)


class NowaitPublisher(Publisher):
    way = "publish_nowait"

    async def run(self, over: threading.Event) -> None:
        async with epicast.connect(self.address, agent=False, timeout=WITHIN_S) as node:
            number = 0
            while not over.is_set():
                for _ in range(5):
                    number += 1
                    for name in STREAMS:
                        node.stream(name).publish_nowait(self.payload(number))
                for name in STREAMS:
                    await node.stream(name).flush()
                    self.note(name, number, 0)
                await asyncio.sleep(5 * _PAUSE_S)


class SyncPublisher(Publisher):
    way = "sync.publish"

    _node: sync.Node | None = None

    async def run(self, over: threading.Event) -> None:
        await asyncio.to_thread(self._run, over)

    async def give_up(self) -> None:
        if self._node is not None:
            await asyncio.to_thread(self._node.close)  # which ends a call that waits in a thread

    def _run(self, over: threading.Event) -> None:
        node = self._node = sync.connect(self.address, agent=False, timeout=WITHIN_S)
        number = 0
        try:
            while not over.wait(_PAUSE_S):
                number += 1
                for name in STREAMS:
                    self.note(name, number, node.stream(name).publish(self.payload(number)))
        except epicast.Closed:
            return  # given up
        node.close()


PUBLISHERS = (AsyncPublisher, NowaitPublisher, SyncPublisher)


class Subscriber:
    """One subscription: what it got, by number."""

    def __init__(self, name: str, stream: str) -> None:
        self.name = f"{name} of {stream}"
        self.stream = stream
        self.got: dict[int, bytes] = {}
        self.first = 1
        self.problem = ""

    @property
    def end(self) -> int:
        return self.first + len(self.got) - 1

    def take(self, batch: EventBatch, *, may_repeat: bool = False) -> None:
        for event in batch.events():
            if event.seq != self.end + 1 and not (may_repeat and event.seq <= self.end):
                self.problem = self.problem or f"{event.seq} came behind {self.end}"
            self.got[event.seq] = event.payload

    async def read(self, node: epicast.Node, after: int | None) -> None:
        """Read the stream behind `after`; without it, what is published from now on."""
        stream = node.stream(self.stream)
        if after is None:
            after = (await stream.head()).seq
        self.first = after + 1
        async for batch in stream.subscribe(after=after).batches():
            assert isinstance(batch, EventBatch), batch
            self.take(batch)

    async def read_with_pauses(self, node: epicast.Node, file: Path) -> None:
        """From the watermark that an earlier subscription saved, again and again."""
        while True:
            resume = WatermarkFile(file)
            subscription = node.stream(self.stream).subscribe(after=0, resume=resume)
            async with subscription:
                while self.end % 50 or not self.got:
                    item = await subscription.get()
                    assert isinstance(item, Event), item
                    self.note(item)
                self.note(await subscription.get())

    def note(self, item: object) -> None:
        assert isinstance(item, Event), item
        if item.seq > self.end + 1:
            self.problem = self.problem or f"{item.seq} came behind {self.end}"
        self.got[item.seq] = item.payload


class Crowd:
    """All of them; `start`, then `settle` after each ending, and `finish`."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._folder = folder
        self._over = threading.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.publishers: list[Publisher] = []
        self.subscribers: list[Subscriber] = []
        self._places = {
            "at us": stage.local.address("us"),
            "at the sidecar in us": stage.sidecar_address("us"),
            "at eu": stage.local.address("eu"),
            "at the sidecar in eu": stage.sidecar_address("eu"),
        }
        self._agents = ("at us", "at eu")
        self._expected = 3 * len(STREAMS) * (len(self._places) + len(self._agents))

    async def start(self) -> None:
        for place, address in self._places.items():
            for kind in PUBLISHERS:
                self.publishers.append(kind(place, address))
        for publisher in self.publishers:
            self._spawn(publisher.run(self._over))
        for place, address in self._places.items():
            self._spawn(self._subscribe(place, address, agent=False))
        for place in self._agents:
            self._spawn(self._subscribe(place, self._places[place], agent=True))

    def _spawn(self, work: Awaitable[None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def _subscribe(self, place: str, address: str, *, agent: bool) -> None:
        kind = "agent" if agent else "client"
        async with epicast.connect(address, agent=agent, timeout=WITHIN_S) as node:
            reading = []
            for stream in STREAMS:
                name = f"{kind} {place}"
                live, whole, resumed = (
                    Subscriber(f"{name}, {how},", stream) for how in ("live", "from 0", "resumed")
                )
                self.subscribers += [live, whole, resumed]
                file = self._folder / f"{name} {stream}.json"
                reading += [
                    live.read(node, None), whole.read(node, 0),
                    resumed.read_with_pauses(node, file),
                ]  # fmt: skip
            await asyncio.gather(*reading)

    async def settle(self, what: str) -> None:
        """All publishers are answered again, and all subscribers have what was acknowledged."""
        began = asyncio.get_running_loop().time()
        before = [dict(publisher.answered) for publisher in self.publishers]
        await self._until(
            lambda: [
                f"publisher {publisher.name} of {stream} is not answered"
                for publisher, told in zip(self.publishers, before, strict=True)
                for stream in STREAMS
                if publisher.answered[stream] < told[stream] + 2
            ],
            began, what,
        )  # fmt: skip
        ends = {s: max(p.newest[s] for p in self.publishers) for s in STREAMS}
        await self._until(
            lambda: [
                f"subscriber {each.name} is at {each.end} of {ends[each.stream]} {each.problem}"
                for each in self.subscribers
                if each.end < ends[each.stream] or each.problem
            ]
            + ["not everybody has subscribed"] * (len(self.subscribers) < self._expected),
            began, what,
        )  # fmt: skip

    async def _until(self, missing: Callable[[], Sequence[str]], began: float, what: str) -> None:
        loop = asyncio.get_running_loop()
        while left := missing():
            for task in self._tasks:
                if task.done():
                    task.result()
            assert loop.time() - began < WITHIN_S, f"{what}: " + "; ".join(left)
            await asyncio.sleep(0.02)

    async def finish(self) -> None:
        self._over.set()
        publishing = self._tasks[: len(self.publishers)]
        await asyncio.wait_for(asyncio.gather(*publishing), WITHIN_S)
        ends = {s: max(p.newest[s] for p in self.publishers) for s in STREAMS}

        async def complete() -> bool:
            return all(each.end >= ends[each.stream] for each in self.subscribers)

        await eventually_true(complete)

    async def stop(self) -> None:
        self._over.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for publisher in self.publishers:
            await publisher.give_up()

    def check(self) -> None:
        """Nothing acknowledged is missing, nothing is there twice, everybody got the same."""
        for stream in STREAMS:
            those = [each for each in self.subscribers if each.stream == stream]
            longest = max(those, key=lambda each: each.end)
            assert longest.end > 0
            whole = next(each for each in those if each.first == 1 and each.end == longest.end)
            for each in those:
                assert not each.problem, f"{each.name}: {each.problem}"
                assert all(whole.got[seq] == payload for seq, payload in each.got.items())
                assert sorted(each.got) == list(range(each.first, each.end + 1))
            by_publisher: dict[str, list[int]] = {each.name: [] for each in self.publishers}
            for seq in range(1, whole.end + 1):
                name, _, number = whole.got[seq].decode().rpartition(":")
                by_publisher[name].append(int(number))
            for publisher in self.publishers:
                numbers = by_publisher[publisher.name]
                assert numbers == list(range(1, len(numbers) + 1)), publisher.name
                assert len(numbers) >= publisher.answered[stream], publisher.name
