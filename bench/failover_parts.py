"""The processes of `bench failover`: a publisher at a given rate, and a subscriber that checks."""

import time
from typing import Any

import numpy as np

import epicast
from epicast.core import EventBatch
from epicast.deployment import stream_id
from epicast.experiments.parts import Leader
from epicast.runtime import run
from epicast.runtime.waiting import Bell, end_task, in_thread, spawn

STREAM = "s"
ROWS = 500
"""Events of a batch."""
_WINDOW = 24
_LOOK_S = 0.02


def publish(leader: Leader, address: str) -> None:
    """As fast as possible until told, then at the rate it is told, then until told again; reports
    how many, and when each batch was acknowledged."""

    async def main() -> None:
        published = 0
        acknowledged: list[float] = []
        async with epicast.connect(address, agent=False, timeout=30) as node:
            target = node.stream(STREAM)

            async def one() -> None:
                nonlocal published
                numbers = np.arange(published, published + ROWS, dtype=">u8")
                published += ROWS
                await target.publish_many(
                    EventBatch.even(stream_id(STREAM), 1, numbers.tobytes(), 0, 8)
                )
                acknowledged.append(time.monotonic())

            async def flat_out(seconds: float) -> float:
                end, before = time.monotonic() + seconds, published

                async def again() -> None:
                    while time.monotonic() < end:
                        await one()

                for task in [spawn(again()) for _ in range(_WINDOW)]:
                    await task
                return (published - before) / seconds

            leader.send("ready")
            await flat_out(1.0)
            rate = await flat_out(await in_thread(leader.recv)) / 2
            leader.send(rate)
            over = spawn(in_thread(leader.recv))
            every = ROWS / rate
            due = time.monotonic()
            running: set[Any] = set()
            while not over.done():
                running = {task for task in running if not task.done()}
                if len(running) < _WINDOW:
                    running.add(spawn(one()))
                due = max(due + every, time.monotonic() - 1.0)
                await Bell().wait(max(0.0, due - time.monotonic()))
            for task in running:
                await task
            leader.send((published, acknowledged))

    run(main())


def subscribe(leader: Leader, address: str) -> None:
    """Until it is told how many there are and has them: whether they are what they should be."""

    async def main() -> None:
        seen, wrong = 0, 0

        async def follow(node: Any) -> None:
            nonlocal seen, wrong
            async for batch in node.stream(STREAM).subscribe(after=0).batches():
                assert isinstance(batch, EventBatch), batch
                numbers = np.frombuffer(b"".join(batch.payloads()), dtype=">u8")
                wrong += int((numbers.astype(np.uint64) != batch.seqs - np.uint64(1)).sum())
                wrong += batch.first != seen + 1
                seen = batch.last

        async with epicast.connect(address, agent=False, timeout=30) as node:
            task = spawn(follow(node))
            leader.send("ready")
            total = await in_thread(leader.recv)
            deadline = time.monotonic() + 60
            while seen < total and time.monotonic() < deadline and not task.done():
                await Bell().wait(_LOOK_S)
            failure = repr(task.exception()) if task.done() else ""
            await end_task(task)
            leader.send((seen, wrong, failure))

    run(main())
