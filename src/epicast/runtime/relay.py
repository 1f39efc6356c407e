"""A stretch of network between nodes that can be cut: for demonstrations and tests of failures.

Whoever is to be reached through it connects to its port instead. While it is cut nothing passes and
nobody is told, as when a router on the way has lost its power; connections stand and starve.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

_BLOCK_BYTES = 1 << 16
_TOO_LATE_S = 1.0


class LinkRelay:
    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = 0
        self.target: tuple[str, int] | None = None
        """Where it leads; to be set before anybody connects."""
        self.passed_bytes = 0
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._accept, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self.port

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_TOO_LATE_S)

    def cut(self) -> None:
        self._flows.clear()

    def restore(self) -> None:
        self._flows.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await self._flows.wait()
            if self.target is None:
                writer.close()
                return
            onward = await asyncio.open_connection(*self.target)
            try:
                pumps = [self._pump(reader, onward[1]), self._pump(onward[0], writer)]
                await asyncio.gather(*pumps)
            finally:
                onward[1].close()
        writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(_BLOCK_BYTES):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
                self.passed_bytes += len(data)
        finally:
            writer.close()
