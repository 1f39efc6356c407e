"""A process that publishes at a given rate, whatever happens, and writes down what it was told."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

import epicast
from epicast.client import PublishLimits, PublishRefused
from epicast.experiments.nemesis.board import Board
from epicast.experiments.nemesis.connecting import connect_patiently
from epicast.experiments.nemesis.geoplex import described, keeps_keys, make_batch, stream_of
from epicast.experiments.nemesis.recording import hashes_of
from epicast.experiments.parts import Leader
from epicast.runtime import run
from epicast.runtime.waiting import Bell, in_thread, spawn
from epicast_checker import PublisherLog

OVER = "over"
_WINDOW = 32
"""Batches on their way at a time."""
_CATCH_UP = 2.0
"""Who is behind publishes so many times as fast as it should."""
_PATIENCE_S = 120.0


class PublisherPlan(Struct, frozen=True):
    name: str
    number: int
    """Counted from 0; as a publisher it is one more."""
    address: str
    rates: tuple[int, ...]
    """Events per second to the stream of each region."""
    rows: int
    """Of a batch."""


def publish(
    leader: Leader, plan: PublisherPlan, regions: Sequence[str], board_file: Path,
    crowd: tuple[int, int], logs: Path,
) -> None:  # fmt: skip
    """Until it is told that it is over, and what was published is acknowledged or refused. Goes on
    where an earlier run of it was killed."""

    async def main() -> None:
        board = Board(board_file, *crowd, len(regions))
        log = PublisherLog(logs, plan.name, described(regions))
        node = await connect_patiently(
            plan.address, agent=False, publisher=plan.number + 1,
            limits=PublishLimits(unacknowledged_events=_WINDOW * plan.rows),
        )  # fmt: skip
        async with node:
            flows = [
                _Flow(node, plan, regions, index, board, log)
                for index, rate in enumerate(plan.rates) if rate
            ]  # fmt: skip
            tasks = [spawn(flow.run()) for flow in flows]
            leader.send("ready")
            told = spawn(in_thread(leader.recv))
            while not told.done() and not any(task.done() for task in tasks):
                await Bell().wait(0.05)
            if told.done():
                await told  # or nobody leads any more
            for flow in flows:
                flow.over = True
            stuck = [text for task in tasks if (text := await task)]
            log.close()
            leader.send(stuck)

    run(main())


class _Flow:
    """From one publisher to one stream."""

    def __init__(
        self, node: epicast.Node, plan: PublisherPlan, regions: Sequence[str], index: int,
        board: Board, log: PublisherLog,
    ) -> None:  # fmt: skip
        self.over = False
        self._node = node
        self._plan = plan
        self._index = index
        self._board = board
        self._log = log
        self._at = board.sending(plan.number, index)
        self._stream = node.stream(stream_of(regions[index]), first_sequence=self._at.number)
        self._keyed = keeps_keys(regions, regions[index])
        self._waiting: deque[Any] = deque()
        """Publications on their way, in order: number, and what became of them."""
        self._settled = Bell()

    async def run(self) -> str:
        """What is wrong, if anything is."""
        number = self._at.number
        every_s = self._plan.rows / self._plan.rates[self._index]
        due = last = time.monotonic()
        tasks = set()
        while not self.over:
            now = time.monotonic()
            wait_s = max(due, last + every_s / _CATCH_UP) - now
            if wait_s > 0:
                await Bell().wait(wait_s)
            elif len(self._waiting) >= _WINDOW:
                await self._settled.wait(0.05)
            else:
                last = now
                due += every_s
                tasks.add(task := spawn(self._publish(number)))
                task.add_done_callback(tasks.discard)
                number += self._plan.rows
        deadline = time.monotonic() + _PATIENCE_S
        while self._waiting:
            if time.monotonic() > deadline:
                return (
                    f"{self._plan.name}: {self._stream.name}: {len(self._waiting)} batches were "
                    f"not answered for {_PATIENCE_S:g} s"
                )
            await self._settled.wait(0.05)
        return ""

    async def _publish(self, number: int) -> None:
        stream, log, rows = self._stream, self._log, self._plan.rows
        publisher = self._plan.number + 1
        batch = make_batch(stream.info.id, publisher, number, rows, self._keyed)
        contents, keys = hashes_of(batch)
        where = (stream.info.id, publisher, number)
        log.sent(*where, time.time_ns(), contents, keys)
        log.flush()  # whatever happens to this process, it was sent
        entry = _Publication()
        self._waiting.append(entry)
        try:
            entry.seq = await stream.publish_many(batch)
        except PublishRefused as error:
            entry.refused = True
            print(f"{self._plan.name}: {stream.name}: {error}", file=sys.stderr, flush=True)
        else:
            epoch = self._node.known_head(stream.info.id).epoch
            log.acked(*where, time.time_ns(), contents, keys, epoch=epoch, seq=entry.seq)
            log.flush()
        entry.settled = True
        self._note()

    def _note(self) -> None:
        at, rows = self._at, self._plan.rows
        while self._waiting and self._waiting[0].settled:
            entry = self._waiting.popleft()
            if entry.refused:
                at = replace(at, refused=at.refused + rows)
            else:
                at = replace(at, acked=at.acked + rows, seq=max(at.seq, entry.seq))
        if at is not self._at:
            self._at = at
            self._board.note_sending(self._plan.number, self._index, at)
            self._settled.ring()


class _Publication:
    __slots__ = ("refused", "seq", "settled")

    def __init__(self) -> None:
        self.seq = 0
        self.refused = self.settled = False
