"""A stretch of network that can be cut: both ways, one way, or with all connections on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from epicast.runtime.relay import LinkRelay

PATIENCE_S = 30.0
SILENCE_S = 0.1
"""Nothing can be waited for where nothing comes."""


class Ends:
    """A connection through a relay, and what came to its far end."""

    def __init__(self, relay: LinkRelay) -> None:
        self.relay = relay
        self.got = bytearray()
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter
        self.far: asyncio.StreamWriter

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.far = writer
        while data := await reader.read(100):
            self.got += data
        writer.close()

    async def arrived(self, data: bytes) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.got != data:
                await asyncio.sleep(0.001)

    async def came_back(self, count: int) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readexactly(count)


@asynccontextmanager
async def connected() -> AsyncIterator[Ends]:
    relay = LinkRelay()
    ends = Ends(relay)
    server = await asyncio.start_server(ends.serve, "127.0.0.1", 0)
    relay.target = server.sockets[0].getsockname()
    ends.reader, ends.writer = await asyncio.open_connection("127.0.0.1", await relay.open())
    ends.writer.write(b"hello")
    await ends.arrived(b"hello")
    try:
        yield ends
    finally:
        ends.writer.close()
        await relay.close()
        server.close()


def test_what_is_held_back_by_a_cut_comes_when_it_is_restored() -> None:
    async def main() -> None:
        async with connected() as ends:
            ends.relay.cut()
            ends.writer.write(b" there")
            ends.far.write(b"back")
            await asyncio.sleep(SILENCE_S)
            assert ends.got == b"hello"
            ends.relay.restore()
            await ends.arrived(b"hello there")
            assert await ends.came_back(4) == b"back"

    asyncio.run(main())


def test_a_cut_one_way_leaves_the_other_open() -> None:
    async def main() -> None:
        async with connected() as ends:
            ends.relay.cut(back=False)
            ends.writer.write(b" there")
            ends.far.write(b"back")
            assert await ends.came_back(4) == b"back"
            await asyncio.sleep(SILENCE_S)
            assert ends.got == b"hello"
            ends.relay.restore()
            ends.relay.cut(there=False)
            await ends.arrived(b"hello there")

    asyncio.run(main())


def test_a_reset_ends_connections_and_a_cut_keeps_new_ones_waiting() -> None:
    async def main() -> None:
        async with connected() as ends:
            ends.relay.cut()
            ends.relay.reset()
            async with asyncio.timeout(PATIENCE_S):
                with suppress(ConnectionError):
                    assert await ends.reader.read() == b""
            _, writer = await asyncio.open_connection("127.0.0.1", ends.relay.port)
            writer.write(b"!")
            await asyncio.sleep(SILENCE_S)
            assert ends.got == b"hello"
            ends.relay.restore()
            await ends.arrived(b"hello!")
            writer.close()

    asyncio.run(main())
