"""The library against a real proxy with real history over TCP."""

import asyncio
from contextlib import suppress
from random import Random

import pytest

import epicast
from epicast.client.items import Item
from epicast.core import EventBatch, Peer
from epicast.deployment import node_id_of
from epicast.protocols.gossip import PushGossip, PushGossipConfig
from epicast.protocols.sprinkler import AgentConfig, Sidecar
from epicast.runtime import NodeDriver
from tests.client.fakes import run
from tests.client.proxies import embedded_proxy, eventually

_THREE = (b"1", b"2", b"3")
BOTH = pytest.mark.parametrize("agent", [True, False])


async def take(subscription: epicast.Subscription, count: int) -> list[Item]:
    return [await subscription.get() for _ in range(count)]


def payloads(items: list[Item]) -> list[bytes]:
    return [item.payload for item in items if isinstance(item, epicast.Event)]


@BOTH
def test_publish_and_subscribe(agent: bool) -> None:
    async def main() -> None:
        async with (
            embedded_proxy() as proxy,
            epicast.connect(proxy.address, agent=agent) as node,
        ):
            assert node.region == "us"
            assert [info.name for info in node.streams()] == ["invalidations", "prices"]
            prices = node.stream("prices")
            live = prices.subscribe()
            assert await prices.publish(b"one", key=b"ACME") == 1
            assert await prices.publish(b"two") == 2
            assert await prices.publish_many([b"three", b"four"], [b"a", b"b"]) == 4
            prices.publish_nowait(b"five")
            await prices.flush()
            history = prices.subscribe(after=0)
            expected = [b"one", b"two", b"three", b"four", b"five"]
            assert payloads(await take(history, 5)) == expected
            assert payloads(await take(live, 5)) == expected
            assert (await prices.head()).seq == 5
            assert payloads(await take(prices.subscribe(after=3), 2)) == expected[3:]

    run(main)


@BOTH
def test_a_second_node_sees_what_the_first_publishes(agent: bool) -> None:
    async def main() -> None:
        async with (
            embedded_proxy() as proxy,
            epicast.connect(proxy.address, agent=agent) as left,
            epicast.connect(proxy.address, agent=agent) as right,
        ):
            subscription = right.stream("prices").subscribe(after=0)
            prices = left.stream("prices")
            for number in range(20_000):
                prices.publish_nowait(b"%d" % number)
                if number % 5000 == 0:
                    await prices.drain()
            await prices.flush()
            assert payloads(await take(subscription, 20_000)) == [b"%d" % n for n in range(20_000)]

    run(main)


def test_a_slow_consumer_gets_everything_within_its_window() -> None:
    async def main() -> None:
        async with (
            embedded_proxy() as proxy,
            epicast.connect(proxy.address, agent=False) as node,
        ):
            prices = node.stream("prices")
            slow = prices.subscribe(after=0, window_bytes=20_000)
            await prices.publish_many([b"%06d" % n for n in range(200_000)])
            got: list[bytes] = []
            while len(got) < 200_000:
                await asyncio.sleep(0.001)
                held = [b.wire_size() for b in slow._feed._queue if isinstance(b, EventBatch)]
                # What the proxy stores in one go it sends in one go: far less than all there is.
                assert sum(held) <= 20_000 + (512 << 10)
                got += payloads(await slow.pull())
            assert got == [b"%06d" % n for n in range(200_000)]

    run(main)


def test_collected_events_come_as_tombstones_and_the_gc_event() -> None:
    async def main() -> None:
        async with (
            embedded_proxy() as proxy,
            epicast.connect(proxy.address, agent=False) as node,
        ):
            prices = node.stream("prices")
            await prices.publish_many([b"1", b"2", b"3"], [b"ACME", b"ACME", b"X"])
            await prices.collect("key == 'ACME'")
            items = await take(prices.subscribe(after=0), 3)
            assert items[0] == epicast.Tombstone(prices.info.id, 1, 2)
            assert isinstance(items[1], epicast.Event) and items[1].payload == b"3"
            assert isinstance(items[2], epicast.Event)
            assert items[2].kind == epicast.EventKind.GC

    run(main)


@BOTH
def test_reconnecting_loses_and_repeats_nothing(agent: bool) -> None:
    async def main() -> None:
        async with (
            embedded_proxy() as proxy,
            epicast.connect(proxy.address, agent=agent) as node,
        ):
            prices = node.stream("prices")
            subscription = prices.subscribe(after=0)
            published = 0

            async def publish() -> None:
                nonlocal published
                while True:
                    await prices.publish(b"%d" % published)
                    published += 1

            publishing = asyncio.ensure_future(publish())
            got: list[bytes] = []
            for outage in range(3):
                while len(got) < 20 * (outage + 1):
                    got += payloads(await subscription.pull())
                await proxy.stop()
                await eventually(lambda: not node.attached, "the loss is noticed")
                await proxy.start()
            await eventually(lambda: node.attached)
            enough = len(got) + 20
            while len(got) < enough:
                got += payloads(await subscription.pull())
            publishing.cancel()
            with suppress(asyncio.CancelledError):
                await publishing
            assert got == [b"%d" % n for n in range(len(got))]
            assert node.statistics()["reattached"] == 3

    run(main)


@BOTH
def test_a_proxy_that_forgot_everything_means_one_reset(agent: bool) -> None:
    async def main() -> None:
        async with (
            embedded_proxy() as proxy,
            epicast.connect(proxy.address, agent=agent) as node,
        ):
            prices = node.stream("prices")
            subscription = prices.subscribe(after=0)
            await prices.publish_many([b"1", b"2", b"3"])
            assert payloads(await take(subscription, 3)) == [b"1", b"2", b"3"]
            await proxy.stop()
            await asyncio.sleep(1.1)  # epochs of histories in memory are seconds
            await proxy.start(empty=True)
            reset = await subscription.get()
            assert isinstance(reset, epicast.Reset)
            assert reset.watermark.seq == 0
            await eventually(lambda: node.attached)
            await prices.publish(b"anew")
            [event] = await take(subscription, 1)
            assert isinstance(event, epicast.Event)
            assert (event.seq, event.payload) == (1, b"anew")
            assert subscription.watermark == reset.watermark

    run(main)


def test_the_same_publisher_is_recognised_after_its_own_restart() -> None:
    async def main() -> None:
        async with embedded_proxy() as proxy:
            async with epicast.connect(proxy.address, publisher=5, agent=False) as node:
                prices = node.stream("prices")
                await prices.publish_many([b"1", b"2", b"3"])
                assert prices.next_sequence == 4
            async with epicast.connect(proxy.address, publisher=5, agent=False) as node:
                prices = node.stream("prices", first_sequence=2)
                await prices.publish_many([b"2", b"3", b"4"])
                items = await take(prices.subscribe(after=0), 4)
                assert payloads(items) == [b"1", b"2", b"3", b"4"]
                assert (await prices.head()).seq == 4

    run(main)


def test_whoever_comes_back_behind_a_refusal_is_not_taken_for_a_repetition() -> None:
    async def main() -> None:
        async with embedded_proxy() as proxy:
            saved = None
            for run_of_it in (b"a", b"b", b"c"):
                async with epicast.connect(proxy.address, publisher=777, agent=False) as node:
                    prices = node.stream("prices", first_sequence=saved)
                    await prices.publish_many([run_of_it + b"1", run_of_it + b"2"])
                    refused = asyncio.ensure_future(prices.publish(b"no", level="regions=7"))
                    await asyncio.sleep(0)
                    await prices.publish(run_of_it + b"3")
                    with pytest.raises(epicast.PublishRefused, match="LEVEL"):
                        await refused
                    saved = prices.next_sequence
            async with epicast.connect(proxy.address, agent=False) as node:
                subscription = node.stream("prices").subscribe(after=0)
                expected = [name + number for name in (b"a", b"b", b"c") for number in _THREE]
                assert payloads(await take(subscription, 9)) == expected
                assert (await node.stream("prices").head()).seq == 9

    run(main)


def test_a_refused_event_cannot_be_published_again_under_its_number() -> None:
    """Rows of a file, the numbers of which are those of the rows: the second is refused, and not
    acknowledged as if it were a repetition when it is tried again."""

    async def main() -> None:
        async with embedded_proxy() as proxy:
            async with epicast.connect(proxy.address, publisher=5, agent=False) as node:
                prices = node.stream("prices")
                await prices.publish(b"row 1")
                with pytest.raises(epicast.PublishRefused, match="LEVEL"):
                    await prices.publish(b"row 2", level="regions=7")
                await prices.publish(b"row 3")
            async with epicast.connect(proxy.address, publisher=5, agent=False) as node:
                prices = node.stream("prices", first_sequence=2)
                with pytest.raises(epicast.PublishRefused, match=r"number 2 of publisher 5.*4 on"):
                    await prices.publish(b"row 2")
                await prices.publish(b"row 3")  # this one is there
                assert await prices.publish(b"row 2") == 3

    run(main)


@BOTH
def test_staleness_is_bounded_while_all_is_well(agent: bool) -> None:
    async def main() -> None:
        async with (
            embedded_proxy() as proxy,
            epicast.connect(proxy.address, agent=agent) as node,
        ):
            subscription = node.stream("prices").subscribe(after=0)
            await eventually(lambda: subscription.staleness() < 10)
            await proxy.stop()
            before = subscription.staleness()
            await asyncio.sleep(0.05)
            assert subscription.staleness() > before

    run(main)


def test_nobody_there_says_what_to_check() -> None:
    async def main() -> None:
        with pytest.raises(epicast.ConnectFailed, match="check the address"):
            await epicast.connect("epicast://127.0.0.1:1", timeout=2)

    run(main)


def test_a_node_that_is_no_proxy_is_told_apart() -> None:
    async def main() -> None:
        driver = NodeDriver(1)
        peer = await driver.listen()
        await driver.start(PushGossip(peer, PushGossipConfig(), Random(1)))
        with pytest.raises(epicast.ConnectFailed, match="as a proxy would"):
            await epicast.connect(f"epicast://127.0.0.1:{peer.port}", timeout=0.5)
        await driver.stop()

    run(main)


def test_an_address_that_is_not_ours_cannot_be_listened_on() -> None:
    async def main() -> None:
        async with embedded_proxy() as proxy:
            with pytest.raises(epicast.EpicastError, match=r"192\.0\.2\.1"):
                await epicast.connect(proxy.address, listen="192.0.2.1")

    run(main)


def test_somebody_else_there_says_so() -> None:
    async def main() -> None:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(epicast.ConnectFailed, match="not an Epicast node"):
            await epicast.connect(f"epicast://127.0.0.1:{port}", timeout=5)
        server.close()
        await server.wait_closed()

    run(main)


@BOTH
def test_a_slow_subscription_beside_a_fast_one_stays_within_its_window(agent: bool) -> None:
    async def main() -> None:
        async with (
            embedded_proxy() as proxy,
            epicast.connect(proxy.address, agent=agent) as node,
        ):
            prices = node.stream("prices")
            fast = prices.subscribe(after=0)
            slow = prices.subscribe(after=0, window_bytes=20_000)
            expected = [b"%06d" % n for n in range(200_000)]
            got: list[bytes] = []
            for start in range(0, 200_000, 10_000):
                await prices.publish_many(expected[start : start + 10_000])
                while len(got) < start + 10_000:
                    got += payloads(await fast.pull())
                held = [b.wire_size() for b in slow._feed._queue if isinstance(b, EventBatch)]
                assert sum(held) <= 20_000 + (512 << 10)
            assert got == expected
            assert payloads(await take(slow, 200_000)) == expected

    run(main)


def test_a_sidecar_serves_plain_clients() -> None:
    async def main() -> None:
        async with embedded_proxy() as proxy:
            driver = NodeDriver(77)
            peer = await driver.listen()
            contact = Peer(node_id_of("us"), "127.0.0.1", proxy.port)
            await driver.start(Sidecar(peer, AgentConfig(follow_all=True), Random(1)), [contact])
            async with (
                epicast.connect(f"epicast://127.0.0.1:{peer.port}", agent=False) as client,
                epicast.connect(proxy.address, agent=False) as other,
            ):
                assert client.region == "us"
                subscription = other.stream("prices").subscribe(after=0)
                assert await client.stream("prices").publish_many([b"1", b"2"]) == 2
                assert payloads(await take(subscription, 2)) == [b"1", b"2"]
                await other.stream("prices").publish(b"3")
                history = client.stream("prices").subscribe(after=0)
                assert payloads(await take(history, 3)) == [b"1", b"2", b"3"]
            await driver.stop()

    run(main)
