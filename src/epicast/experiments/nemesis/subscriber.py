"""A process that follows all streams and writes down what it gets; one that looks at replicas."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

import epicast
from epicast.client import Reset, Watermark
from epicast.core import EventBatch
from epicast.experiments.nemesis.board import Board, Following
from epicast.experiments.nemesis.connecting import connect_patiently
from epicast.experiments.nemesis.geoplex import described, stream_of
from epicast.experiments.nemesis.recording import record_item
from epicast.experiments.parts import Leader
from epicast.runtime import run
from epicast.runtime.waiting import Bell, end_task, in_thread, spawn
from epicast_checker import SubscriberLog

_LOOK_EVERY_S = 0.05
_FLUSH_EVERY_S = 0.05
PATIENCE_S = 120.0
"""How long it may take until everything is there when nothing is published any more."""


class SubscriberPlan(Struct, frozen=True):
    name: str
    number: int
    address: str
    agent: bool


def subscribe(
    leader: Leader, plan: SubscriberPlan, regions: Sequence[str], board_file: Path,
    crowd: tuple[int, int], logs: Path,
) -> None:  # fmt: skip
    """Until it is told how far the streams go, and has everything or had the time to get it. Goes
    on where an earlier run of it was killed."""

    async def main() -> None:
        board = Board(board_file, *crowd, len(regions))
        log = SubscriberLog(logs, plan.name, described(regions))
        async with await connect_patiently(plan.address, agent=plan.agent) as node:
            followers = [
                _Follower(node, stream_of(region), log, board.following(plan.number, index))
                for index, region in enumerate(regions)
            ]

            def write() -> None:
                log.flush()
                for index, follower in enumerate(followers):
                    board.note_following(plan.number, index, follower.at)

            tasks = [spawn(follower.run()) for follower in followers]
            leader.send("ready")
            told = spawn(in_thread(leader.recv))
            while not told.done() and not any(task.done() for task in tasks):
                await Bell().wait(_FLUSH_EVERY_S)
                write()
            ends: list[int] = await told
            missing = await _wait_for(followers, ends)
            for task in tasks:
                await end_task(task)
            for follower in followers:
                follower.close()
            write()
            log.close()
            leader.send([f"{plan.name}: {text}" for text in missing])

    run(main())


def inspect(
    leader: Leader, addresses: Sequence[tuple[str, str]], regions: Sequence[str],
    ends: Sequence[int], logs: Path,
) -> None:  # fmt: skip
    """Read everything that each replica, by name and address, still has."""

    async def one(name: str, address: str) -> list[str]:
        title = f"late-{name.replace('/', '-')}"
        log = SubscriberLog(logs, title, described(regions))
        async with await connect_patiently(address, agent=False) as node:
            followers = [_Follower(node, stream_of(r), log, Following()) for r in regions]
            tasks = [spawn(follower.run()) for follower in followers]
            missing = await _wait_for(followers, ends)
            for task in tasks:
                await end_task(task)
            for follower in followers:
                follower.close()
        log.close()
        return [f"{title}: {text}" for text in missing]

    async def main() -> None:
        for name, address in addresses:
            leader.send(await one(name, address))

    run(main())


class _Follower:
    def __init__(self, node: epicast.Node, name: str, log: SubscriberLog, at: Following) -> None:
        self.name = name
        self.at = at
        self.error = ""
        self._log = log
        self._stream = node.stream(name).info.id
        after = Watermark(at.epoch, at.seq) if at.seq else 0
        log.opened(self._stream, at.epoch, at.seq + 1, time.time_ns())
        self._subscription = node.stream(name).subscribe(after=after)

    async def run(self) -> None:
        at = self.at
        try:
            async for item in self._subscription.batches():
                record_item(self._log, self._stream, item, time.time_ns())
                if isinstance(item, EventBatch):
                    at = self.at = Following(
                        item.epoch, item.last, at.events + item.rows,
                        at.tombstones + item.tombstones, at.resets,
                    )  # fmt: skip
                else:
                    assert isinstance(item, Reset)
                    epoch, seq = item.watermark
                    at = self.at = Following(epoch, seq, at.events, at.tombstones, at.resets + 1)
        except epicast.EpicastError as error:
            self.error = f"the subscription failed: {error}"

    def close(self) -> None:
        """Whether or not everything is there: it had the time to come."""
        self._log.closed(self._stream, self.at.epoch, self.at.seq, time.time_ns())


async def _wait_for(followers: Sequence[_Follower], ends: Sequence[int]) -> list[str]:
    """What is missing once everything is there, or the time is up."""
    deadline = time.monotonic() + PATIENCE_S
    while any(f.at.seq < end for f, end in zip(followers, ends, strict=True)):
        if time.monotonic() > deadline:
            break
        await Bell().wait(_LOOK_EVERY_S)
    return [
        f"{follower.name}: at {follower.at.seq} of {end}. {follower.error}".rstrip()
        for follower, end in zip(followers, ends, strict=True)
        if follower.at.seq < end
    ]
