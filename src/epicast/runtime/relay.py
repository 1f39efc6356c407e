"""A stretch of network between nodes that can be cut: for demonstrations and tests of failures.

Whoever is to be reached through it connects to its port instead. While it is cut nothing passes and
nobody is told, as when a router on the way has lost its power; connections stand and starve. It can
be cut one way only, and connections can be ended, too.
"""

from __future__ import annotations

import asyncio

_BLOCK_BYTES = 1 << 16
_TOO_LATE_S = 1.0


class LinkRelay:
    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = 0
        self.target: tuple[str, int] | None = None
        """Where it leads; to be set before anybody connects."""
        self.passed_bytes = 0
        self._there, self._back = asyncio.Event(), asyncio.Event()
        self.restore()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

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

    def cut(self, *, there: bool = True, back: bool = True) -> None:
        """Nothing passes any more: from who connected, to it, or both. As everything here, within
        the loop it was opened in."""
        if there:
            self._there.clear()
        if back:
            self._back.clear()

    def restore(self) -> None:
        self._there.set()
        self._back.set()

    def reset(self) -> None:
        """End all connections at once."""
        for writer in self._writers:
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = {writer}
        self._writers |= writers
        try:
            await self._there.wait()
            await self._back.wait()
            if self.target is None:
                return
            back, onward = await asyncio.open_connection(*self.target)
            writers.add(onward)
            self._writers.add(onward)
            await asyncio.gather(
                self._pump(reader, onward, self._there), self._pump(back, writer, self._back)
            )
        except (OSError, RuntimeError):
            pass  # an end of it is gone, and with it the connection; uvloop says so in its own way
        finally:
            self._writers -= writers
            for each in writers:
                each.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event
    ) -> None:
        try:
            while data := await reader.read(_BLOCK_BYTES):
                await flows.wait()
                writer.write(data)
                await writer.drain()
                self.passed_bytes += len(data)
        finally:
            writer.close()
