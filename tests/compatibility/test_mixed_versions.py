"""Nodes of the version before and of this one, in one deployment."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

import epicast
from epicast.client import ConnectFailed
from epicast.core import EventKind, Peer
from epicast.deployment import Geoplex, parse_geoplex
from epicast.geo.ports import free_ports
from epicast.geo.proxy import ProxyService
from epicast.geo.status import ask_status
from epicast.runtime import run
from epicast.wire import Handshake, Hello, VersionRange
from tests.compatibility.lens import Lens
from tests.compatibility.recording import (
    COLLECTED_BELOW,
    FIXTURES,
    GEOPLEX,
    KEYS,
    ORDERS,
    PRICES,
    PUBLISHER,
    Recording,
    recordings,
)
from tests.compatibility.test_schemas import SPOKEN
from tests.geo.support import address_of, eventually_true, geoplex_text, make_geoplex

older = pytest.mark.parametrize("recorded", SPOKEN, ids=lambda recorded: recorded.name)


@older
def test_a_client_and_a_proxy_of_different_versions(recorded: Recording) -> None:
    """Each sees the other as one of the recorded version; a node of this version is beside them."""

    async def scenario() -> None:
        geoplex = make_geoplex(("us",), streams='[streams.orders]\nowner = "us"\n')
        service = ProxyService(geoplex, "us")
        await service.start()
        async with Lens(recorded) as lens:
            lens.target = geoplex.region("us").address
            old_address = f"epicast://127.0.0.1:{lens.port}"
            async with (
                epicast.connect(old_address, agent=False) as other,
                epicast.connect(address_of(geoplex, "us"), agent=False) as current,
            ):
                theirs, ours = other.stream("orders"), current.stream("orders")
                assert theirs.info == ours.info
                assert await theirs.publish(b"from them", key=b"k") == 1
                assert await ours.publish(b"from us") == 2
                await theirs.collect("seq < 2")
                for stream in (theirs, ours):
                    assert (await stream.head()).seq == 3
                    subscription = stream.subscribe(after=0)
                    items = [await subscription.get() for _ in range(3)]
                    assert isinstance(items[0], epicast.Tombstone)
                    assert isinstance(items[1], epicast.Event)
                    assert items[1].payload == b"from us"
                    assert isinstance(items[2], epicast.Event)
                    assert items[2].kind == EventKind.GC
                    await subscription.close()
                with pytest.raises(epicast.PublishRefused, match="LEVEL"):
                    await theirs.publish(b"", level="regions=5")
            status = await ask_status("127.0.0.1", lens.port)
            assert status.streams[0].head == 3
            for name in ("Attach", "Welcome", "Publish", "Published", "Subscribe", "Events",
                         "Advertisement", "Refused", "StatusReply"):  # fmt: skip
                assert lens.passed[name], f"{name} went another way: {lens.passed}"
            assert not lens.unknown
        assert "wire_error.malformed" not in service.driver.statistics()
        await service.stop()

    run(scenario())


def two_regions(there: int, back: int) -> Geoplex:
    links = (
        f'[[links]]\nfrom = "us"\nto = "eu"\nvia = "127.0.0.1:{there}"\n'
        f'[[links]]\nfrom = "eu"\nto = "us"\nvia = "127.0.0.1:{back}"\n'
    )
    return parse_geoplex(geoplex_text() + links, "test.toml")


@older
def test_proxies_of_different_versions(recorded: Recording) -> None:
    async def scenario() -> None:
        async with Lens(recorded) as there, Lens(recorded) as back:
            geoplex = two_regions(there.port, back.port)
            there.target = geoplex.region("eu").address
            back.target = geoplex.region("us").address
            services = [ProxyService(geoplex, region) for region in geoplex.regions]
            for service in services:
                await service.start()
            async with (
                epicast.connect(address_of(geoplex, "us"), agent=False) as american,
                epicast.connect(address_of(geoplex, "eu"), agent=False) as european,
            ):
                # `orders` belongs to us, `prices` to eu: both ways, acknowledged by both regions.
                await european.stream("orders").publish(b"order", level="regions=1")
                await american.stream("prices").publish(b"1", key=b"a", level="regions=1")
                await american.stream("prices").publish(b"2", key=b"a")
                for node in (american, european):
                    for name, expected in (("orders", [b"order"]), ("prices", [b"2"])):
                        subscription = node.stream(name).subscribe(after=0, tombstones=False)
                        payloads: list[bytes] = []
                        while payloads[-1:] != expected:
                            item = await subscription.get(60)
                            assert isinstance(item, epicast.Event)
                            payloads.append(item.payload)
                        await subscription.close()
            passed = there.passed + back.passed
            for name in ("Accepted", "Advertisement", "Subscribe", "Publish", "Published"):
                assert passed[name], f"{name} went another way: {passed}"
            assert passed["Tail"] + passed["Events"]
            assert not there.unknown + back.unknown
            for service in services:
                await service.stop()

    run(scenario())


@pytest.mark.parametrize("data", sorted(FIXTURES.glob("data-*")), ids=lambda path: path.name)
def test_the_files_of_an_older_proxy(data: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        shutil.copytree(data, tmp_path / "data")
        text = GEOPLEX.format(port=free_ports(1)[0], data=tmp_path / "data")
        geoplex = parse_geoplex(text, "recorded.toml")
        service = ProxyService(geoplex, "us")
        await service.start()
        epochs = {s.name: s.epoch for s in service.status().streams}
        address = address_of(geoplex, "us")
        async with epicast.connect(address, agent=False, publisher=PUBLISHER) as node:
            orders = node.stream("orders", first_sequence=ORDERS + 1)
            prices = node.stream("prices", first_sequence=PRICES)
            # The collection was the publisher's as well, and both are known: nothing is new.
            assert await orders.publish(b"the same again") == ORDERS + 1
            assert await prices.publish(b"the same again") == PRICES
            assert (await prices.head()).seq == PRICES
            assert await orders.publish(b"new") == ORDERS + 2
            subscription = orders.subscribe(after=0)
            first = await subscription.get()
            assert isinstance(first, epicast.Tombstone)
            assert (first.first, first.last) == (1, COLLECTED_BELOW - 1)
            for number in range(COLLECTED_BELOW, ORDERS + 1):
                event = await subscription.get()
                assert isinstance(event, epicast.Event) and event.payload == b"order %d" % number
            latest = prices.subscribe(after=0, tombstones=False)
            for number in range(PRICES - KEYS + 1, PRICES + 1):
                event = await latest.get()
                assert isinstance(event, epicast.Event) and event.key == b"key %d" % (number % KEYS)
                assert event.payload == b"price %d" % number
        assert {s.name: s.epoch for s in service.status().streams} == epochs, "nothing was lost"
        await service.stop()

    run(scenario())


def test_a_version_that_is_not_spoken_is_refused_with_the_reason() -> None:
    async def scenario() -> None:
        greeting = Handshake(Hello(Peer(5), 1, "test"), versions=VersionRange(7, 9)).outgoing

        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(greeting)
            await reader.read()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectFailed, match=r"versions 7\.\.9, this node 1\.\.1; upgrade"):
            await epicast.connect(f"epicast://127.0.0.1:{port}", agent=False)
        server.close()

        geoplex = make_geoplex(("us",), streams='[streams.orders]\nowner = "us"\n')
        service = ProxyService(geoplex, "us")
        await service.start()
        reader, writer = await asyncio.open_connection(*geoplex.region("us").address)
        writer.write(greeting)
        while await reader.read(1 << 16):  # until it is closed
            pass
        writer.close()
        await writer.wait_closed()

        async def counted() -> bool:
            return service.driver.statistics().get("wire_error.unknown_version") == 1

        await eventually_true(counted)
        await service.stop()

    run(scenario())


def test_there_is_a_version_before_this_one() -> None:
    assert len(recordings()) >= 2
