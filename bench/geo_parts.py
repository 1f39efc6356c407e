"""The processes of `bench geo` besides the proxies: drivers that publish, agents that check."""

import asyncio
import time

import numpy as np

import epicast
from bench.geo_events import DrawnStream, digest
from bench.rivals.processes import hear, play, tell
from epicast.client.node import Node
from epicast.core import EventBatch
from epicast.deployment import stream_id
from epicast.runtime import run

_WINDOW_BYTES = 16 << 20
_PATIENCE_S = 60.0


def drive(address: str, stream: str, seed: int, window: int, times_file: str) -> None:
    """Publish in a closed loop, `window` batches at a time, until the time has come."""

    async def main() -> None:
        source = DrawnStream(stream_id(stream), seed)
        async with epicast.connect(address, agent=False, publisher=seed) as node:
            target = node.stream(stream)
            tell("ready")
            end = hear()
            times: list[int] = []

            async def publish() -> None:
                while time.monotonic() < end:
                    batch = source.batch()
                    times.append(time.monotonic_ns())
                    await target.publish_many(batch)

            cpu = time.process_time()
            await asyncio.gather(*(publish() for _ in range(window)))
            np.save(times_file, np.array(times))
            tell({"events": source.drawn, "cpu_s": time.process_time() - cpu})

    run(main())


class Follower:
    """One stream, as an application sees it."""

    def __init__(self, node: Node, name: str) -> None:
        self.name = name
        self.last = 0
        self.rows = 0
        self.digest = 0
        self.arrivals: list[tuple[int, int, int]] = []
        """Of each batch: its last number, when it came, how many rows it had."""
        self._subscription = node.stream(name).subscribe(after=0, window_bytes=_WINDOW_BYTES)

    async def run(self) -> None:
        async for batch in self._subscription.batches():
            assert isinstance(batch, EventBatch), batch
            assert batch.first == self.last + 1, (batch, self.last)
            self.last = batch.last
            self.rows += batch.rows
            self.digest += digest(batch)
            self.arrivals.append((batch.last, time.monotonic_ns(), batch.rows))


def follow(address: str, streams: list[str], arrivals_file: str) -> None:
    """Follow all streams from their beginning, until everything published is there."""

    async def main() -> None:
        digest(EventBatch.build(1, 1, [b"x"]))  # compiles it, if that is left to do
        async with epicast.connect(address, agent=True) as node:
            followers = [Follower(node, name) for name in streams]
            tasks = [asyncio.create_task(follower.run()) for follower in followers]
            tell("ready")
            cpu = time.process_time()
            totals = await asyncio.to_thread(hear)
            deadline = time.monotonic() + _PATIENCE_S
            while any(f.last < totals[f.name] for f in followers):
                if time.monotonic() > deadline or any(task.done() for task in tasks):
                    break
                await asyncio.sleep(0.02)
            cpu = time.process_time() - cpu
            for task in tasks:
                task.cancel()
            failures = await asyncio.gather(*tasks, return_exceptions=True)
            np.savez(arrivals_file, **{f.name: np.array(f.arrivals) for f in followers})
            tell(
                {
                    "cpu_s": cpu,
                    "failures": [repr(f) for f in failures if not _is_cancelled(f)],
                    "streams": {f.name: [f.last, f.rows, f.digest % 2**64] for f in followers},
                    "statistics": dict(node.statistics()),
                }
            )

    run(main())


def _is_cancelled(outcome: object) -> bool:
    return isinstance(outcome, asyncio.CancelledError)


if __name__ == "__main__":
    play({"drive": drive, "follow": follow})
