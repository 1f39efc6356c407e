"""Names of hosts to numbers, for datagrams: a connection resolves the name when it is made."""

from __future__ import annotations

import asyncio
import socket

from epicast.runtime.limits import Limits
from epicast.runtime.recorder import Recorder

_MAX_LOOKUPS = 16
"""Under way at a time."""


class Resolver:
    """Never blocks: who asks for an unknown name is told nothing, and may ask again later."""

    def __init__(self, limits: Limits, recorder: Recorder) -> None:
        self.family: socket.AddressFamily = socket.AF_INET
        self._limits = limits
        self._clock = recorder.clock
        self._found: dict[str, tuple[str | None, int]] = {}  # oldest first, with when it was found
        self._lookups: dict[str, asyncio.Task[None]] = {}

    def lookup(self, host: str) -> str | None:
        if self._is_numeric(host):
            return host
        known, since = self._found.get(host, (None, 0))
        if known is None and self._clock() >= since + self._limits.backoff_max_ns:
            self._start_lookup(host)
        return known

    def _is_numeric(self, host: str) -> bool:
        try:
            socket.inet_pton(self.family, host)
        except (OSError, ValueError):
            return False
        return True

    def _start_lookup(self, host: str) -> None:
        if host and host not in self._lookups and len(self._lookups) < _MAX_LOOKUPS:
            task = asyncio.get_running_loop().create_task(self._resolve(host))
            self._lookups[host] = task
            task.add_done_callback(lambda _: self._lookups.pop(host, None))

    async def _resolve(self, host: str) -> None:
        found = None
        try:
            addresses = await asyncio.get_running_loop().getaddrinfo(
                host, None, family=self.family, type=socket.SOCK_DGRAM
            )
            found = str(addresses[0][4][0])
        except (OSError, ValueError):
            pass  # remembered as unknown for a while
        self._found.pop(host, None)
        self._found[host] = (found, self._clock())
        if len(self._found) > self._limits.max_addresses:
            del self._found[next(iter(self._found))]

    async def close(self) -> None:
        tasks = list(self._lookups.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
