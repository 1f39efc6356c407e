"""Proxies and agents as services, in the test's own loop."""

from pathlib import Path

import pytest

import epicast
from epicast.core import EventBatch, EventKind
from epicast.deployment import Geoplex, node_id_of, stream_id
from epicast.geo.agent import AgentService
from epicast.geo.proxy import ProxyService
from epicast.geo.status import StatusUnknown, ask_status
from epicast.geo.upkeep import expiry_period_ns
from epicast.runtime import DriverError, StorageError, Unreachable, run
from tests.geo.support import address_of, eventually_true, make_geoplex

EXPIRING = """
[streams.orders]
owner = "us"
max_age = "200ms"
"""


async def started(geoplex: Geoplex) -> list[ProxyService]:
    services = [ProxyService(geoplex, region) for region in geoplex.regions]
    for service in services:
        await service.start()
    return services


async def stopped(*services: ProxyService | AgentService) -> None:
    for service in services:
        await service.stop()


def test_publish_here_subscribe_there_and_ask_how_it_is() -> None:
    async def scenario() -> None:
        geoplex = make_geoplex()
        services = await started(geoplex)
        async with epicast.connect(address_of(geoplex, "eu"), agent=False) as node:
            for at in range(1, 4):
                assert await node.stream("orders").publish(b"%d" % at, key=b"k") == at
            await node.stream("prices").publish_many([b"1", b"2"], keys=[b"a", b"a"])
            subscription = node.stream("orders").subscribe(after=0)
            values = [(await subscription.get()).payload for _ in range(3)]  # type: ignore[union-attr]
            assert values == [b"1", b"2", b"3"]
            status = await ask_status(*geoplex.region("eu").address)
            assert (status.geoplex, status.region, status.proxies) == ("test", "eu", 1)
            assert status.attached == 1 and status.subscriptions >= 1
            assert status.regions["us"] == str(geoplex.region("us").address)
            orders, prices = status.streams
            assert (orders.name, orders.owner, orders.source, orders.head) == (
                "orders",
                "us",
                "us",
                3,
            )
            assert (prices.source, prices.head, prices.live_events) == ("eu", 2, 1)
            assert prices.gc_saving == 0.5 and orders.gc_saving == 0
            assert status.driver["connections"] >= 2 and status.resident_bytes > 1 << 20
        await stopped(*services)

    run(scenario())


def test_what_was_acknowledged_on_disk_is_there_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        geoplex = make_geoplex(("us",), tmp_path, '[streams.orders]\nowner = "us"\n')
        for start in (1, 2):
            services = await started(geoplex)
            async with epicast.connect(address_of(geoplex, "us"), agent=False) as node:
                assert await node.stream("orders").publish(b"value") == start
                epoch = (await node.stream("orders").head()).epoch
            await stopped(*services)
            if start == 1:
                first_epoch = epoch
        assert epoch == first_epoch

    run(scenario())


def test_old_events_expire_and_go_on_expiring_after_a_restart(tmp_path: Path) -> None:
    geoplex = make_geoplex(("us",), tmp_path, EXPIRING)
    stream, publisher = stream_id("orders"), node_id_of("us/expiry")

    async def expired(round_number: int) -> None:
        (service,) = await started(geoplex)

        async def gc_events() -> bool:
            return service.storage.history(stream).publishers().get(publisher) == round_number

        async with epicast.connect(address_of(geoplex, "us"), agent=False) as node:
            seq = await node.stream("orders").publish(b"value")
            await eventually_true(gc_events, "nothing expired")
            (batch,) = service.storage.history(stream).read(seq, 1 << 20)
            assert isinstance(batch, EventBatch)
            assert batch.seqs.tolist() == [seq + 1], "the event should be a tombstone"
            assert batch.kinds.tolist() == [EventKind.GC]
            assert service.storage.statistics(stream).live_events == 1
        await service.stop()

    for round_number in (1, 2):
        run(expired(round_number))


def test_the_expiry_period_is_a_part_of_the_age_within_bounds() -> None:
    second = 1_000_000_000
    assert expiry_period_ns(20 * second) == 2 * second
    assert expiry_period_ns(second // 100) == second // 10
    assert expiry_period_ns(86_400 * second) == 60 * second


def test_a_sidecar_serves_plain_clients_and_relays_what_they_publish() -> None:
    async def scenario() -> None:
        geoplex = make_geoplex()
        services = await started(geoplex)
        agent = AgentService(geoplex, "eu")
        await agent.start()
        address = f"epicast://{agent.address}"
        async with epicast.connect(address, agent=False) as node:
            assert node.region == "eu"
            subscription = node.stream("orders").subscribe(after=0)
            for at in range(1, 20):
                assert await node.stream("orders").publish(b"%d" % at) == at
            seqs = [(await subscription.get()).seq for _ in range(19)]  # type: ignore[union-attr]
            assert seqs == list(range(1, 20))
        await stopped(agent, *services)

    run(scenario())


def test_an_agent_waits_for_a_proxy_that_is_not_there_yet() -> None:
    async def scenario() -> None:
        geoplex = make_geoplex(("us",), streams='[streams.orders]\nowner = "us"\n')
        agent = AgentService(geoplex, "us")
        await agent.start()
        services = await started(geoplex)
        async with epicast.connect(f"epicast://{agent.address}", agent=False, timeout=30) as node:
            assert await node.stream("orders").publish(b"value") == 1
        await stopped(agent, *services)

    run(scenario())


def test_bad_publications_are_refused_by_the_owner_and_nothing_else_suffers() -> None:
    """The client library checks as well; this is what a careless client would be told."""
    from epicast.client.publishing import PublishingStream

    async def scenario() -> None:
        geoplex = make_geoplex()
        services = await started(geoplex)
        async with epicast.connect(address_of(geoplex, "us"), agent=False) as node:
            prices = node.stream("prices")
            assert isinstance(prices, PublishingStream)
            batch = EventBatch.build(prices.info.id, 1, [b"1"], keys=[b"k" * 17])
            with pytest.raises(epicast.PublishRefused, match="INVALID: a key of 17 bytes"):
                await prices.publish_many(batch)
            with pytest.raises(epicast.PublishRefused, match="latest event per key") as caught:
                await prices.collect("size < 5")
            assert caught.value.code == "INVALID"
            assert await prices.publish(b"1", key=b"k") == 1
        await stopped(*services)

    run(scenario())


def test_a_port_in_use_is_said_and_the_histories_are_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        geoplex = make_geoplex(("us",), tmp_path, '[streams.orders]\nowner = "us"\n')
        services = await started(geoplex)
        rival = ProxyService(geoplex, "us", data=tmp_path / "other")
        with pytest.raises(DriverError, match=r"cannot listen on 127\.0\.0\.1"):
            await rival.start()
        await stopped(rival, *services)
        again = ProxyService(geoplex, "us", data=tmp_path / "other", port=0)
        await again.start()
        await again.stop()

    run(scenario())


def test_a_folder_belongs_to_one_proxy_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        geoplex = make_geoplex(("us",), tmp_path, '[streams.orders]\nowner = "us"\n')
        services = await started(geoplex)
        rival = ProxyService(geoplex, "us", port=0)
        with pytest.raises(StorageError, match="orders"):
            await rival.start()
        await stopped(rival, *services)

    run(scenario())


def test_asking_the_wrong_address_says_so() -> None:
    async def scenario() -> None:
        geoplex = make_geoplex(("us",), streams='[streams.orders]\nowner = "us"\n')
        with pytest.raises(Unreachable, match="cannot be reached"):
            await ask_status(*geoplex.region("us").address)
        services = await started(geoplex)
        agent = AgentService(geoplex, "us")
        await agent.start()
        with pytest.raises(StatusUnknown, match="is an agent; its region's proxy is at"):
            await ask_status(*agent.address, timeout=0.5)
        await stopped(agent, *services)

    run(scenario())
