"""A client goes on when another node, or none, answers at the address it was attached to."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

import epicast
from epicast.core import Peer
from epicast.deployment import node_id_of
from epicast.protocols.gossip import PushGossip, PushGossipConfig
from epicast.protocols.sprinkler import AgentConfig, ClientConfig, Sidecar
from epicast.runtime import NodeDriver
from epicast.runtime.limits import Limits
from tests.client.fakes import run
from tests.client.proxies import EmbeddedProxy, embedded_proxy, eventually

IMPATIENT = ClientConfig(attach_within_ns=200_000_000, reconnect_every_ns=20_000_000)


@asynccontextmanager
async def sidecar_of(proxy: EmbeddedProxy, node: int, port: int = 0) -> AsyncIterator[int]:
    """The port of a sidecar with this id, which another one takes when it is started again."""
    driver = NodeDriver(node, port=port)
    try:
        peer = await driver.listen()
        contact = Peer(node_id_of("us"), "127.0.0.1", proxy.port)
        await driver.start(Sidecar(peer, AgentConfig(follow_all=True), Random(node)), [contact])
        yield peer.port
    finally:
        await driver.stop()


@asynccontextmanager
async def silent_node() -> AsyncIterator[int]:
    """The port of a node that says who it is and answers nothing, as a proxy does that was stopped
    at that moment."""
    driver = NodeDriver(1, limits=Limits(idle_close_ns=3600 * 10**9))
    peer = await driver.listen()
    await driver.start(PushGossip(peer, PushGossipConfig(), Random(1)))
    try:
        yield peer.port
    finally:
        await driver.stop()


def at(*ports: int) -> str:
    return "epicast://" + ",".join(f"127.0.0.1:{port}" for port in ports)


async def texts(subscription: epicast.Subscription, count: int) -> list[bytes]:
    items = [await subscription.get() for _ in range(count)]
    return [item.payload for item in items if isinstance(item, epicast.Event)]


def test_a_sidecar_that_was_started_again_is_another_node_at_the_same_address() -> None:
    async def main() -> None:
        async with embedded_proxy() as proxy:
            async with sidecar_of(proxy, 77) as port:
                node = await epicast.connect(at(port), agent=False)
                prices = node.stream("prices")
                subscription = prices.subscribe(after=0)
                assert await prices.publish(b"before") == 1
            await eventually(lambda: not node.attached, "the loss is noticed")
            meanwhile = asyncio.ensure_future(prices.publish(b"meanwhile"))
            for incarnation in (78, 12, 79):  # the node with the lower id decides on connections
                async with sidecar_of(proxy, incarnation, port):
                    await asyncio.wait_for(prices.publish(b"%d" % incarnation), 20)
                await eventually(lambda: not node.attached, "the loss is noticed")
            assert await meanwhile == 2
            async with sidecar_of(proxy, 80, port):
                got = await asyncio.wait_for(texts(subscription, 5), 20)
            assert got == [b"before", b"meanwhile", b"78", b"12", b"79"]
            await node.close()

    run(main)


@pytest.mark.parametrize("ids", [(77, 78), (2**64 - 3, 2**64 - 4)])
def test_all_addresses_are_tried_in_turn(ids: tuple[int, int]) -> None:
    async def main() -> None:
        async with embedded_proxy() as proxy, sidecar_of(proxy, ids[0]) as second:
            async with sidecar_of(proxy, ids[1]) as first:
                node = await epicast.connect(at(first, second, proxy.port), agent=False)
                prices = node.stream("prices")
                subscription = prices.subscribe(after=0)
                assert await prices.publish(b"at the first") == 1
            assert await asyncio.wait_for(prices.publish(b"elsewhere"), 20) == 2
            assert await asyncio.wait_for(texts(subscription, 2), 20) == [
                b"at the first", b"elsewhere",
            ]  # fmt: skip
            await node.close()

    run(main)


def test_an_agent_does_not_take_a_sidecar_for_its_proxy() -> None:
    async def main() -> None:
        async with (
            embedded_proxy() as proxy,
            embedded_proxy() as twin,
            sidecar_of(twin, 77) as second,
        ):
            agent = AgentConfig(reconnect_every_ns=20_000_000)
            node = await epicast.connect(at(proxy.port, second), agent=True, config=agent)
            await node.stream("prices").publish(b"before")
            await proxy.stop()
            await eventually(lambda: "drop.a sidecar is no proxy" in node.statistics())
            assert not node.at_sidecar
            await proxy.start()
            assert await asyncio.wait_for(node.stream("prices").publish(b"after"), 20) == 2
            await node.close()

    run(main)


@pytest.mark.parametrize("agent", [True, False])
def test_an_attachment_that_is_not_answered_is_tried_elsewhere(agent: bool) -> None:
    async def main() -> None:
        async with embedded_proxy() as proxy, silent_node() as silent:
            config = AgentConfig(attach_within_ns=200_000_000) if agent else IMPATIENT
            async with epicast.connect(
                at(silent, proxy.port), agent=agent, config=config, timeout=20
            ) as node:
                assert await node.stream("prices").publish(b"one") == 1

    run(main)


@pytest.mark.parametrize(("config", "timeout"), [(IMPATIENT, 2.0), (ClientConfig(), 0.5)])
def test_what_was_tried_is_said_after_the_time_given(config: ClientConfig, timeout: float) -> None:
    async def main() -> None:
        async with silent_node() as one, silent_node() as other:
            began = time.monotonic()
            with pytest.raises(epicast.ConnectFailed) as raised:
                await epicast.connect(
                    at(one, 1, other), agent=False, config=config, timeout=timeout
                )
            assert time.monotonic() - began < 15
            for port in (one, 1, other):
                assert f"127.0.0.1:{port}" in str(raised.value)

    run(main)
