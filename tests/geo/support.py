"""Geoplexes for tests: on ports that are free, and patience instead of timing."""

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from epicast.deployment import Geoplex, parse_geoplex
from epicast.geo.ports import free_ports
from epicast.runtime.waiting import Bell

PATIENCE_S = 60.0
STREAMS = """
[streams.orders]
owner = "us"
ack = "{ack}"

[streams.prices]
owner = "eu"
ack = "memory"
latest_per_key = true
max_key = "16B"
"""
QUICK = """
[proxies]
advertise_every = "20ms"
heartbeat_every = "50ms"
reconnect_every = "50ms"
"""


def geoplex_text(
    regions: tuple[str, ...] = ("us", "eu"), data: Path | None = None, streams: str | None = None
) -> str:
    """With a data folder, `orders` is acknowledged once it is on disk."""
    parts = ['name = "test"\n']
    for name, port in zip(regions, free_ports(len(regions)), strict=True):
        folder = "" if data is None else f'data = "{data / name}"\n'
        parts.append(f'[regions.{name}]\nproxy = "127.0.0.1:{port}"\n{folder}')
    if streams is None:
        streams = STREAMS.format(ack="memory" if data is None else "disk")
    return "\n".join([*parts, streams, QUICK])


def make_geoplex(
    regions: tuple[str, ...] = ("us", "eu"), data: Path | None = None, streams: str | None = None
) -> Geoplex:
    return parse_geoplex(geoplex_text(regions, data, streams), "test.toml")


def address_of(geoplex: Geoplex, region: str) -> str:
    return f"epicast://{geoplex.region(region).address}"


def eventually(condition: Callable[[], object], what: str = "") -> None:
    """How long it takes does not matter, only that it happens."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what or "it never happened"
        time.sleep(0.01)


async def eventually_true(condition: Callable[[], Awaitable[object]], what: str = "") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not await condition():
        assert time.monotonic() < deadline, what or "it never happened"
        await Bell().wait(0.01)


def is_alive(pid: int) -> bool:
    """Not counting one that has ended and that nobody has asked about yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextmanager
def proxy_process(file: Path, region: str, limit: int | None = None) -> Iterator[str]:
    """The address of a proxy whose files may not grow beyond a limit."""
    command = [sys.executable, "-m", "epicast", "proxy", str(file), region, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if limit is not None:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    with process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["address"]
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        finally:
            process.kill()
