"""Proxies to back up, and what is in their streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import epicast
from epicast.backup import StreamEntry, backup_running
from epicast.core import EventBatch, EventKind
from epicast.deployment import Geoplex, parse_geoplex
from epicast.geo.proxy import ProxyService
from epicast.log import DiskDirectory, History, LogConfig, policy_of
from tests.geo.support import address_of, geoplex_text

STREAMS = """
[streams.orders]
owner = "us"
ack = "disk"

[streams.prices]
owner = "us"
ack = "memory"
latest_per_key = true
"""
PUBLISHER = 77


def make_geoplex(folder: Path, regions: tuple[str, ...] = ("us",)) -> Geoplex:
    return parse_geoplex(geoplex_text(regions, folder / "data", STREAMS), "test.toml")


@asynccontextmanager
async def running(geoplex: Geoplex, *regions: str) -> AsyncIterator[dict[str, ProxyService]]:
    services = {region: ProxyService(geoplex, region) for region in regions or geoplex.regions}
    for service in services.values():
        await service.start()
    try:
        yield services
    finally:
        for service in services.values():
            await service.stop()


def connected(geoplex: Geoplex, region: str = "us", publisher: int | None = None):  # type: ignore[no-untyped-def]
    return epicast.connect(address_of(geoplex, region), agent=False, publisher=publisher)


async def publish(node: epicast.Node, stream: str, first: int, count: int, keys: int = 0) -> None:
    """Events of a publisher, by its own numbers; with `keys`, each has one of so many."""
    numbers = range(first, first + count)
    names = [b"key %d" % (n % keys) for n in numbers] if keys else None
    there = node.stream(stream, first_sequence=first)
    await there.publish_many([b"value %d" % n for n in numbers], keys=names)


async def back_up(
    geoplex: Geoplex, folder: Path, *streams: str, region: str = "us"
) -> dict[str, StreamEntry]:
    async with connected(geoplex, region) as node:
        names = streams or tuple(geoplex.streams)
        return await backup_running(node, names, folder, address_of(geoplex, region))


def events_of(history: History) -> dict[int, tuple[bytes, bytes]]:
    """Key and payload of the live events of DATA, by number."""
    found: dict[int, tuple[bytes, bytes]] = {}
    at = history.start
    while at <= history.end:
        for batch in history.read(at, 1 << 20):
            assert isinstance(batch, EventBatch) and batch.first == at
            for event in batch.events():
                if event.kind == EventKind.DATA:
                    found[event.seq] = (event.key, event.payload)
            at = batch.last + 1
    return found


def open_history(geoplex: Geoplex, folder: Path, name: str) -> History:
    stream = geoplex.stream(name)
    return History(
        DiskDirectory(folder), stream.id, policy=policy_of(stream), config=LogConfig(), epoch=1
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }
