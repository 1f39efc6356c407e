"""A driver and an edge that do what a test tells them, and nothing by themselves."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from epicast.client.node import Node
from epicast.client.publishing import PublishLimits
from epicast.core import EventBatch, Publication
from epicast.protocols.sprinkler.messages import Counter, StreamInfo
from epicast.protocols.sprinkler.notices import Attached, Heads
from epicast.runtime.errors import NoRoom

PRICES = StreamInfo(7, "prices", 1, "us", max_key_bytes=16)
AUDIT = StreamInfo(8, "audit", 1, "us")
EPOCH = 3


class FakeEdge:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def subscribe(
        self, number: int, stream: int, epoch: int, after: int, window_bytes: int
    ) -> None:
        self.calls.append(("subscribe", number, stream, epoch, after, window_bytes))

    def consumed(self, number: int, seq: int) -> None:
        self.calls.append(("consumed", number, seq))

    def unsubscribe(self, number: int) -> None:
        self.calls.append(("unsubscribe", number))

    def ask(self) -> None:
        self.calls.append(("ask",))

    def statistics(self) -> dict[str, int | float]:
        return {"edge": 1}


class FakeDriver:
    def __init__(self) -> None:
        self.wakes = 0
        self.room = 1 << 30
        """Batches it still takes."""
        self.published: list[Publication] = []
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        self.wakes += 1

    def publish_nowait(
        self,
        batch: EventBatch,
        publisher: int | None = None,
        first: int | None = None,
        topic: int = 0,
        level: str = "",
    ) -> None:
        if not self.room:
            raise NoRoom("full")
        self.room -= 1
        assert publisher is not None and first is not None
        self.published.append(Publication(publisher, first, batch, topic, level))

    def statistics(self) -> dict[str, int]:
        return {"driver": 1}

    async def stop(self) -> None:
        if not self.stopped.done():
            self.stopped.set_result(None)

    async def wait(self) -> None:
        await asyncio.shield(self.stopped)


class World:
    """A node attached to a proxy that exists only in the test."""

    def __init__(self, limits: PublishLimits | None = None, **heads: int) -> None:
        self.node = Node(99, limits or PublishLimits())
        self.edge = FakeEdge()
        self.driver = FakeDriver()
        self.node.run_on(self.driver, self.edge)
        self.heads = (Counter(7, EPOCH, heads.get("prices", 0)), Counter(8, EPOCH, 0))
        self.node.on_notice(0, Attached("us", (PRICES, AUDIT), self.heads, 500_000_000))
        self.stored = 0
        """How many events the owner of `prices` has numbered."""
        self._answered = 0

    def deliver(self, number: int, *batches: EventBatch) -> None:
        for batch in batches:
            self.node.on_topic_delivery(number, batch)

    def acknowledge(self, count: int | None = None) -> None:
        """Answer publications in order, numbering events as an owner does."""
        waiting = self.driver.published[self._answered :]
        for publication in waiting[:count]:
            self._answered += 1
            self.stored += publication.batch.rows
            self.node.on_acknowledge(publication, publication.level, self.stored)

    def refuse(self, error: str) -> None:
        publication = self.driver.published[self._answered]
        self._answered += 1
        self.node.on_refuse(publication, error)

    def heartbeat(self, asked_at: int, seq: int, epoch: int = EPOCH) -> None:
        self.node.on_notice(0, Heads((Counter(7, epoch, seq),), asked_at))

    def payloads(self) -> list[list[bytes]]:
        return [publication.batch.payloads() for publication in self.driver.published]

    def calls(self, name: str) -> list[tuple[Any, ...]]:
        return [call for call in self.edge.calls if call[0] == name]


def batch(
    first: int, last: int, *, gone: Sequence[int] = (), epoch: int = EPOCH, stream: int = 7
) -> EventBatch:
    """Events first..last whose payload is their number, without those that are gone."""
    seqs = [seq for seq in range(first, last + 1) if seq not in gone]
    payloads = [b"%d" % seq for seq in seqs]
    return EventBatch.build(
        stream, first, payloads, seqs=seqs if gone else None, last=last, epoch=epoch
    )


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """To the end, within a minute, leaving no task behind."""

    async def watched() -> None:
        await asyncio.wait_for(main(), 60)
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"

    asyncio.run(watched(), debug=True)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
