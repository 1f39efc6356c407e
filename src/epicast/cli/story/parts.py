"""The applications of the demonstration, each process some of them: caches, and their database.

`python -m epicast.cli.story.parts` reads its task as a line of JSON from stdin, says how it is
doing in lines on stdout, and is told in further lines what to do next.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import msgspec
import numpy as np
from msgspec import Struct

import epicast
from epicast.client.items import Reset, Tombstone
from epicast.client.node import Node
from epicast.client.stream import Stream
from epicast.runtime import run
from epicast.runtime.waiting import Bell, in_thread, spawn

_REPORT_EVERY_S = 0.25
_TICK_S = 0.01
_SLOW_ITEMS, _SLOW_WINDOW_BYTES = 20, 64 << 10
"""What the slow one takes at a time, and may have waiting for it."""


class CacheTask(Struct):
    """A cache that follows all streams. `slow_s`: for so long it takes its time."""

    name: str
    address: str
    streams: list[str]
    slow_s: float = 0.0
    evidence: str | None = None


class Writing(Struct):
    """A stream, where it is published, and how much."""

    stream: str
    address: str
    seed: int


class DatabaseTask(Struct):
    writings: list[Writing]
    rate: int
    seconds: float
    keys: int
    skew: float
    evidence: str | None = None


class Task(Struct):
    caches: list[CacheTask] = []
    database: DatabaseTask | None = None


class Until(Struct):
    """Everything was published: these are the heads."""

    heads: dict[str, int]


class CacheReport(Struct):
    name: str
    watermarks: dict[str, int] = {}
    delivered: int = 0
    tombstoned: int = 0
    out_of_order: int = 0
    contents: dict[str, int] = {}
    """Of each stream: a digest of the keys and values held in the end."""
    delays_us: list[int] = []
    done: bool = False


class DatabaseReport(Struct):
    published: int = 0
    heads: dict[str, int] = {}
    contents: dict[str, int] = {}
    done: bool = False


class Report(Struct):
    caches: list[CacheReport] = []
    database: DatabaseReport | None = None


def contents_digest(values: dict[bytes, bytes]) -> int:
    """The same for equal contents, whatever the order."""
    return sum(hash_pair(key, value) for key, value in values.items()) % 2**64


def hash_pair(key: bytes, value: bytes) -> int:
    from hashlib import blake2b

    return int.from_bytes(blake2b(value, digest_size=8, key=key[:64]).digest(), "little")


class Cache:
    """Keeps the latest value of every key it hears of, as an application would."""

    def __init__(self, task: CacheTask) -> None:
        self._task = task
        self.report = CacheReport(task.name)
        self._values: dict[str, dict[bytes, bytes]] = {name: {} for name in task.streams}
        self._heads: dict[str, int] = {}
        self._started = time.monotonic()

    async def live(self) -> None:
        task = self._task
        async with epicast.connect(
            task.address, agent=True, evidence=task.evidence, name=task.name
        ) as node:
            following = [spawn(self._follow(node, name)) for name in task.streams]
            for each in following:
                await each
        self.report.contents = {
            name: contents_digest(values) for name, values in self._values.items()
        }
        self.report.done = True

    def finish(self, heads: dict[str, int]) -> None:
        self._heads = heads

    async def _follow(self, node: Node, name: str) -> None:
        report, values = self.report, self._values[name]
        report.watermarks[name] = 0
        window = _SLOW_WINDOW_BYTES if self._task.slow_s else 4 << 20
        async with node.stream(name).subscribe(after=0, window_bytes=window) as subscription:
            while not self._heads or report.watermarks[name] < self._heads[name]:
                is_slow = time.monotonic() - self._started < self._task.slow_s
                most = _SLOW_ITEMS if is_slow else 1000
                for item in await subscription.pull(most, timeout=0.1):
                    if isinstance(item, Reset):
                        report.out_of_order += 1  # nothing here loses its history
                    elif isinstance(item, Tombstone):
                        self._advance(name, item.first, item.last)
                        report.tombstoned += item.last - item.first + 1
                    else:
                        self._advance(name, item.seq, item.seq)
                        report.delivered += 1
                        values[item.key] = item.payload
                        if item.seq % 64 == 0:
                            sent = int.from_bytes(item.payload[:8], "little")
                            report.delays_us.append((time.monotonic_ns() - sent) // 1000)
                if is_slow:
                    await Bell().wait(_TICK_S)

    def _advance(self, name: str, first: int, last: int) -> None:
        if first != self.report.watermarks[name] + 1:
            self.report.out_of_order += 1
        self.report.watermarks[name] = last


class Database:
    """Invalidates keys at random, popular ones more often, in every region."""

    def __init__(self, task: DatabaseTask) -> None:
        self._task = task
        self.report = DatabaseReport()
        weights = np.arange(1, task.keys + 1, dtype=np.float64) ** -task.skew
        self._popularity = np.cumsum(weights / weights.sum())
        self._values: dict[str, dict[bytes, bytes]] = {w.stream: {} for w in task.writings}

    async def live(self) -> None:
        nodes = {
            writing.address: await epicast.connect(
                writing.address, agent=False, evidence=self._task.evidence, name="database"
            )
            for writing in self._task.writings
        }
        started = time.monotonic()
        tasks = [
            spawn(self._write(nodes[w.address].stream(w.stream), w, started))
            for w in self._task.writings
        ]
        for task in tasks:
            await task
        for node in nodes.values():
            await node.close()
        self.report.contents = {
            name: contents_digest(values) for name, values in self._values.items()
        }
        self.report.done = True

    async def _write(self, stream: Stream, writing: Writing, started: float) -> None:
        rng = np.random.default_rng(writing.seed)
        task, values, written = self._task, self._values[writing.stream], 0
        while (passed := time.monotonic() - started) < task.seconds:
            due = int(passed * task.rate) - written
            if due > 0:
                written += due
                drawn = np.searchsorted(self._popularity, rng.random(due)).tolist()
                keys = [b"key-%d" % number for number in drawn]
                now = time.monotonic_ns().to_bytes(8, "little")
                payloads = [now + b"%d" % (written - due + at) for at in range(due)]
                values.update(zip(keys, payloads, strict=True))
                self.report.heads[writing.stream] = await stream.publish_many(payloads, keys)
                self.report.published += due
            await Bell().wait(_TICK_S)


async def play(task: Task) -> None:
    caches = [Cache(cache) for cache in task.caches]
    database = Database(task.database) if task.database is not None else None
    lives = [spawn(cache.live()) for cache in caches]
    if database is not None:
        lives.append(spawn(database.live()))
    orders = spawn(_take_orders(caches))
    while True:
        over = all(life.done() for life in lives)
        _say(Report([cache.report for cache in caches], database.report if database else None))
        for life in lives:
            if life.done():
                life.result()
        if over:
            break
        await Bell().wait(_REPORT_EVERY_S)
    orders.cancel()


async def _take_orders(caches: list[Cache]) -> None:
    line = await in_thread(sys.stdin.readline)
    if line:
        until = msgspec.json.decode(line, type=Until)
        for cache in caches:
            cache.finish(until.heads)


def _say(report: Report) -> None:
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    sys.stdout.flush()
    for cache in report.caches:
        cache.delays_us = []  # told once


def main(read: Callable[[], str] = sys.stdin.readline) -> None:
    run(play(msgspec.json.decode(read(), type=Task)))


if __name__ == "__main__":
    main()
