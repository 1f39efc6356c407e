"""A stretch of network on which only a recorded version is spoken.

A node that is reached through a `Lens` is, for whoever is at the other end, a node of that version:
every handshake and every frame is read with the recorded types and written again with them. What
the version does not know does not get through: fields are left out, and a message of a later type
ends the connection, as it did in revision 1, or is passed over, as in all since.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from struct import Struct

import msgspec
from crc32c import crc32c

from epicast.core import BodyCodec
from tests.compatibility.recording import Recording
from tests.compatibility.schemas import Dialect

_GREETING = Struct("<4sHHHHI")
_FRAME = Struct("<IIHBBI")


class Lens:
    def __init__(self, recording: Recording) -> None:
        self.port = 0
        self.target: tuple[str, int] | None = None
        self.passed: Counter[str] = Counter()
        """Messages by name."""
        self.unknown: Counter[int] = Counter()
        """Type ids the version does not know."""
        self._recording = recording
        self._dialect = Dialect(recording.schema)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Lens:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self.target is not None
        try:
            onward = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        pumps = [self._pump(reader, onward[1]), self._pump(onward[0], writer)]
        await asyncio.gather(*pumps)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        codec = BodyCodec()
        with suppress(asyncio.IncompleteReadError, OSError):
            try:
                writer.write(self._greeting(*await _read(reader, _GREETING, at=3)))
                while True:
                    head = await reader.readexactly(_FRAME.size)
                    length = _FRAME.unpack(head)[0]
                    rest = await reader.readexactly(length + 8 - _FRAME.size)
                    frame = self._frame(head, rest, codec)
                    if frame is None:
                        break
                    writer.write(frame)
                    await writer.drain()
            finally:
                writer.close()

    def _greeting(self, _: tuple[object, ...], body: bytes) -> bytes:
        said = msgspec.msgpack.encode(msgspec.msgpack.decode(body, type=self._dialect.greeting))
        version = self._recording.version
        head = _GREETING.pack(b"EPIC", version, version, len(said), 0, 0)[:-4]
        return head + crc32c(said, crc32c(head)).to_bytes(4, "little") + said

    def _frame(self, head: bytes, rest: bytes, codec: BodyCodec) -> bytes | None:
        _, checksum, type_id, depth, flags, fields = _FRAME.unpack(head)
        assert crc32c(rest, crc32c(head[8:])) == checksum
        kind = self._dialect.messages.get(type_id)
        if kind is None:
            self.unknown[type_id] += 1
            closes = (self._recording.version, self._recording.revision) == (1, 1)
            return None if closes else b""
        layers, body = rest[: 4 * depth], rest[4 * depth :]
        message = codec.decode(kind, memoryview(body), fields)
        self.passed[kind.__name__] += 1
        buffers = codec.encode(message)
        middle = Struct("<HBBI").pack(type_id, depth, flags, len(buffers[0])) + layers
        said = middle + b"".join(buffers)
        return len(said).to_bytes(4, "little") + crc32c(said).to_bytes(4, "little") + said


async def _read(
    reader: asyncio.StreamReader, layout: Struct, at: int
) -> tuple[tuple[object, ...], bytes]:
    """Fields, and the bytes behind them, whose number is field `at`."""
    fields = layout.unpack(await reader.readexactly(layout.size))
    return fields, await reader.readexactly(fields[at])
