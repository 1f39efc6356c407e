"""The processes of `bench peers` and `bench latency` besides the proxy: plain clients that publish
and subscribe, through the public API alone."""

import asyncio
import time

import epicast
from bench.peer_ways import SYNC_WAYS, WAYS, BatchCheck, EventCheck, check_for
from bench.rivals.events import EVENT_BYTES, events
from bench.rivals.processes import hear, play, tell
from epicast import sync

STREAM = "events"
_BATCH = 10_000
_BATCHES_AT_ONCE = 8
_WINDOW_BYTES = 16 << 20


def publish(address: str, count: int, keyed: bool) -> None:
    """Event by event, as docs/client.md shows it; with `keyed`, each event is its own key."""

    async def main() -> None:
        async with epicast.connect(address, agent=False) as node:
            stream = node.stream(STREAM)
            payloads = events(count)
            tell("ready")
            hear()
            put = stream.publish_nowait
            started = time.monotonic_ns()
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

    epicast.run(main())


def publish_batches(address: str, count: int) -> None:
    """Columns made before, a few batches at a time; the limits let each travel as one."""
    limits = epicast.PublishLimits(
        batch_events=_BATCH, unacknowledged_events=2 * _BATCH * _BATCHES_AT_ONCE
    )

    async def main() -> None:
        async with epicast.connect(address, agent=False, limits=limits) as node:
            stream = node.stream(STREAM)
            columns = epicast.EventBatch.build(1, 1, events(_BATCH))
            left = count

            async def work() -> None:
                nonlocal left
                while left:
                    rows = min(left, _BATCH)
                    left -= rows
                    await stream.publish_many(columns.slice(1, rows))

            tell("ready")
            hear()
            started = time.monotonic_ns()
            await asyncio.gather(*(work() for _ in range(_BATCHES_AT_ONCE)))
            tell(started)

    epicast.run(main())


def subscribe(address: str, way: str, count: int, keyed: bool) -> None:
    """Everything from the beginning, in one of the ways; says when the last event was there."""
    check = check_for(way, count, complete=not keyed)
    if way in WAYS:
        epicast.run(_subscribe(address, way, check))
        return
    with sync.connect(address, agent=False) as node:
        stream = node.stream(STREAM)
        with stream.subscribe(after=0, window_bytes=_WINDOW_BYTES) as subscription:
            stream.head()  # answered on the same connection: the subscription has arrived
            tell("ready")
            SYNC_WAYS[way](subscription, check)
            tell(time.monotonic_ns())


async def _subscribe(address: str, way: str, check: EventCheck | BatchCheck) -> None:
    async with epicast.connect(address, agent=False) as node:
        stream = node.stream(STREAM)
        subscription = stream.subscribe(after=0, window_bytes=_WINDOW_BYTES, tombstones=False)
        await stream.head()
        tell("ready")
        await WAYS[way](subscription, check)
        tell(time.monotonic_ns())


def publish_paced(address: str, count: int, rate: int) -> None:
    """The time of publication is in the event. A late one is made up for at once."""

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

    epicast.run(main())


def subscribe_timed(address: str, count: int) -> None:
    """How long every event took to get here."""

    async def main() -> None:
        async with epicast.connect(address, agent=False) as node:
            stream = node.stream(STREAM)
            subscription = stream.subscribe(after=0)
            await stream.head()
            tell("ready")
            delays: list[int] = []
            async for event in subscription:
                assert isinstance(event, epicast.Event)
                delays.append(time.monotonic_ns() - int.from_bytes(event.payload, "little"))
                if event.seq == count:
                    break
            assert len(delays) == count
            tell(delays)

    epicast.run(main())


if __name__ == "__main__":
    play(
        {
            "publish": publish,
            "publish_batches": publish_batches,
            "subscribe": subscribe,
            "publish_paced": publish_paced,
            "subscribe_timed": subscribe_timed,
        }
    )
