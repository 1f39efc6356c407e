"""The processes of `bench peers` and `bench latency` besides the proxy: plain clients that publish
and subscribe, through the public API alone."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice

import epicast
from bench.rivals.events import EVENT_BYTES, events
from bench.rivals.processes import hear, play, tell
from epicast import sync

STREAM = "events"
_BATCH = 10_000
_BATCHES_AT_ONCE = 8
_PULL = 1000
_PAUSE_S = 0.0005


# -- publishers ----------------------------------------------------------------------------------


def publish(address: str, count: int, keyed: bool) -> None:
    """Event by event, as docs/client.md shows it; with `keyed`, each event is its own key."""

    async def main() -> None:
        async with epicast.connect(address, agent=False) as node:
            stream = node.stream(STREAM)
            payloads = events(count)
            tell("ready")
            hear()
            started = time.monotonic_ns()
            put = stream.publish_nowait
            if keyed:
                for payload in payloads:
                    try:
                        put(payload, payload)
                    except epicast.NoRoom:
                        await stream.drain()
                        put(payload, payload)
            else:
                for payload in payloads:
                    try:
                        put(payload)
                    except epicast.NoRoom:
                        await stream.drain()
                        put(payload)
            await stream.flush()
            tell(started)
            hear()

    epicast.run(main())


def publish_batches(address: str, count: int) -> None:
    """Columns made before, a few batches at a time; the limits let each travel as one."""
    limits = epicast.PublishLimits(batch_events=_BATCH, unacknowledged_events=_BATCH * 16)

    async def main() -> None:
        async with epicast.connect(address, agent=False, limits=limits) as node:
            stream = node.stream(STREAM)
            whole = epicast.EventBatch.build(1, 1, events(_BATCH))
            left = count

            async def work() -> None:
                nonlocal left
                while left:
                    rows = min(left, _BATCH)
                    left -= rows
                    await stream.publish_many(whole.slice(1, rows))

            tell("ready")
            hear()
            started = time.monotonic_ns()
            await asyncio.gather(*(work() for _ in range(_BATCHES_AT_ONCE)))
            tell(started)
            hear()

    epicast.run(main())


def publish_paced(address: str, count: int, rate: int) -> None:
    """The time of publication is in the event. Late ones are made up for at once."""

    async def main() -> None:
        async with epicast.connect(address, agent=False) as node:
            stream = node.stream(STREAM)
            tell("ready")
            hear()
            start = time.monotonic()
            for number in range(count):
                delay = start + number / rate - time.monotonic()
                if delay > 0:
                    await asyncio.sleep(delay)
                now = time.monotonic_ns().to_bytes(EVENT_BYTES, "little")
                try:
                    stream.publish_nowait(now)
                except epicast.NoRoom:
                    await stream.drain()
                    stream.publish_nowait(now)
            await stream.flush()
            tell(time.monotonic() - start)
            hear()

    epicast.run(main())


# -- subscribers ---------------------------------------------------------------------------------


class Wrong(AssertionError):
    """Something was received that was not published."""


class Check:
    """Compares what comes with what was published, in order."""

    def __init__(self, count: int) -> None:
        self.left = count
        self._expected = iter(events(count))

    def one(self, payload: bytes) -> bool:
        """Whether that was the last one."""
        if payload != next(self._expected):
            raise Wrong(f"{payload!r} with {self.left} to come")
        self.left -= 1
        return not self.left

    def many(self, payloads: list[bytes]) -> bool:
        if payloads != list(islice(self._expected, len(payloads))):
            raise Wrong(f"{payloads[:3]}… with {self.left} to come")
        self.left -= len(payloads)
        return not self.left
