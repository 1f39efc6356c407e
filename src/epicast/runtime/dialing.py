"""Attempts to reach a peer: each bounded in time, fewer and fewer of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from epicast.runtime.addresses import Entry
from epicast.runtime.connection import Connection
from epicast.runtime.limits import Limits
from epicast.runtime.messages import DeclineCode
from epicast.runtime.recorder import Recorder


class Dialer:
    def __init__(self, limits: Limits, rng: Random, recorder: Recorder) -> None:
        self._limits = limits
        self._rng = rng
        self._recorder = recorder
        self._clock = recorder.clock

    async def dial(
        self, entry: Entry, connection: Callable[[], Connection], *, patient: bool
    ) -> None:
        """Return when a connection is in use, or when all attempts have failed."""
        if patient:
            await asyncio.sleep(max(0, entry.not_before - self._clock()) / 1e9)
        for attempt in range(self._limits.connect_attempts):
            if attempt:
                self._recorder.reconnects += 1
                await asyncio.sleep(self._backoff_ns(attempt - 1) / 1e9)
            self._recorder.dial_attempts += 1
            attempted = connection()
            if await self._attempt(entry, attempted):
                return
            declined = attempted.declined
            if declined is not None and declined.code is DeclineCode.IDENTITY:
                break  # the next attempt would end the same way
        entry.failures += 1
        pause = self._backoff_ns(self._limits.connect_attempts + entry.failures)
        entry.not_before = self._clock() + int(pause)

    async def _attempt(self, entry: Entry, connection: Connection) -> bool:
        loop = asyncio.get_running_loop()
        connection.outcome = loop.create_future()
        peer = entry.peer
        interrupted = True
        try:
            async with asyncio.timeout(self._limits.connect_timeout_ns / 1e9):
                await loop.create_connection(lambda: connection, peer.host, peer.port)
                interrupted = False
                return await connection.outcome
        except (OSError, TimeoutError, ValueError, OverflowError):
            return False  # the latter two: an address that cannot be one
        finally:
            connection.give_up(interrupted=interrupted)

    def _backoff_ns(self, step: int) -> float:
        limits = self._limits
        base = min(limits.backoff_max_ns, limits.backoff_first_ns << min(step, 40))
        return base * (0.5 + self._rng.random())
