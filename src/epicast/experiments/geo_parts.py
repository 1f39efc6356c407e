"""The processes that load a geoplex: drivers that publish, agents that check what comes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import epicast
from epicast.client.node import Node
from epicast.core import EventBatch
from epicast.deployment import stream_id
from epicast.experiments.geo_events import DrawnStream, digest
from epicast.experiments.parts import Leader
from epicast.protocols.sprinkler import AgentConfig
from epicast.runtime import run
from epicast.runtime.waiting import Bell, end_task, in_thread, spawn

_WINDOW_BYTES = 16 << 20
_PATIENCE_S = 60.0
_LOOK_EVERY_S = 0.02


def drive(
    leader: Leader,
    address: str,
    stream: str,
    seed: int,
    window: int,
    times_file: Path,
    evidence: Path | None = None,
) -> None:
    """Publish in a closed loop, `window` batches at a time, until the moment it is told."""

    async def main() -> None:
        source = DrawnStream(stream_id(stream), seed)
        async with epicast.connect(address, agent=False, publisher=seed, evidence=evidence) as node:
            target = node.stream(stream)
            leader.send("ready")
            leader.recv()
            end = float("inf")
            times: list[int] = []

            async def hear_end() -> None:
                nonlocal end
                end = await in_thread(leader.recv)

            async def publish() -> None:
                while time.monotonic() < end:
                    times.append(time.monotonic_ns())
                    await target.publish_many(source.batch())

            cpu = time.process_time()
            for task in [spawn(hear_end()), *(spawn(publish()) for _ in range(window))]:
                await task
            np.save(times_file, np.array(times))
            leader.send({"events": source.drawn, "cpu_s": time.process_time() - cpu})

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


def follow(
    leader: Leader,
    address: str,
    streams: list[str],
    region: int,
    file: Path,
    evidence: Path | None = None,
) -> None:
    """Follow all streams from their beginning, until everything published is there; view and
    fanout are both `region`."""

    async def main() -> None:
        digest(EventBatch.build(1, 1, [b"x"]))  # compiles it, if that is left to do
        config = AgentConfig(view_size=region, fanout=region)
        async with epicast.connect(address, agent=True, config=config, evidence=evidence) as node:
            followers = [Follower(node, name) for name in streams]
            tasks = [spawn(follower.run()) for follower in followers]
            leader.send("ready")
            cpu = time.process_time()
            while not all(f.last for f in followers) and not any(task.done() for task in tasks):
                await Bell().wait(_LOOK_EVERY_S)
            leader.send("flowing")
            totals: dict[str, int] = await in_thread(leader.recv)
            deadline = time.monotonic() + _PATIENCE_S
            while any(f.last < totals[f.name] for f in followers):
                if time.monotonic() > deadline or any(task.done() for task in tasks):
                    break
                await Bell().wait(_LOOK_EVERY_S)
            cpu = time.process_time() - cpu
            failures = [repr(task.exception()) for task in tasks if task.done()]
            for task in tasks:
                await end_task(task)
            columns: dict[str, Any] = {f.name: np.array(f.arrivals) for f in followers}
            np.savez(file, **columns)
            leader.send(
                {
                    "cpu_s": cpu,
                    "failures": failures,
                    "streams": {f.name: [f.last, f.rows, f.digest % 2**64] for f in followers},
                    "statistics": dict(node.statistics()),
                }
            )

    run(main())
