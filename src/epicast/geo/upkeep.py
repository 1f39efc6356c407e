"""What a proxy does to its histories now and then: retention, compaction, expiry."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from epicast.core import EventBatch, EventKind
from epicast.deployment import Stream
from epicast.deployment.naming import node_id_of
from epicast.geo.evidence import ProxyEvidence
from epicast.runtime import NodeDriver
from epicast.runtime.errors import DriverError
from epicast.runtime.history_storage import HistoryStorage
from epicast.runtime.waiting import Bell, Task, end_task, spawn

log = logging.getLogger("epicast.geo")

EVERY_S = 0.05
"""Each round compacts a little; this is what bounds how much of the disk's time it takes."""
MAX_SHARE = 0.2
"""Of the loop's time, so that thousands of streams do not stop a proxy from serving."""
_EXPIRY_PARTS = 10
_EXPIRY_BOUNDS_NS = (100_000_000, 60_000_000_000)


class Upkeep:
    """`owns`: whether a stream is numbered here at the moment; only of these is expiry decided."""

    def __init__(
        self,
        region: str,
        streams: Sequence[Stream],
        owns: Callable[[int], bool],
        storage: HistoryStorage,
        driver: NodeDriver,
        evidence: ProxyEvidence | None = None,
    ) -> None:
        self._owns = owns
        self._storage = storage
        self._driver = driver
        self._evidence = evidence
        self._publisher = node_id_of(f"{region}/expiry")
        self._expiring = {
            stream.id: expiry_period_ns(stream.max_age_ns)
            for stream in streams
            if stream.max_age_ns is not None
        }
        self._next_expiry = dict.fromkeys(self._expiring, 0)
        self._task: Task[None] | None = None

    def start(self) -> None:
        self._task = spawn(self._work())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            await end_task(task)

    async def _work(self) -> None:
        pause = EVERY_S
        while True:
            await Bell().wait(pause)  # rung by nobody: a sleep that ends with the task
            began = time.monotonic()
            try:
                await self._storage.maintain(time.time_ns())
                self._expire(time.monotonic_ns(), time.time_ns())
                if self._evidence is not None:
                    self._evidence.keep_up()
            except Exception:
                log.exception("upkeep of the histories failed; it is tried again")
            pause = max(EVERY_S, (time.monotonic() - began) / MAX_SHARE)

    def _expire(self, now: int, wall: int) -> None:
        for stream, period in self._expiring.items():
            if now < self._next_expiry[stream] or not self._owns(stream):
                continue
            self._next_expiry[stream] = now + period
            payload = self._storage.expiry(stream, wall)
            if payload is not None:
                self._publish(stream, payload)

    def _publish(self, stream: int, payload: bytes) -> None:
        # The history knows what of this publisher was stored, also before a restart or after a
        # failure; what is on its way under the same number is recognised.
        first = self._storage.history(stream).publishers().get(self._publisher, 0) + 1
        batch = EventBatch.build(stream, 1, [payload], kinds=[EventKind.GC])
        try:
            self._driver.publish_nowait(batch, self._publisher, first)
        except DriverError as error:
            log.warning("stream %d cannot expire events now: %s", stream, error)


def expiry_period_ns(max_age_ns: int) -> int:
    """Events live this much longer than they may, at most."""
    least, most = _EXPIRY_BOUNDS_NS
    return min(most, max(least, max_age_ns // _EXPIRY_PARTS))
