"""Peers on loopback with rounds short enough for tests."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import epicast
from epicast import EptoConfig, Event, LpbcastConfig, PeerNode, Topic, TopicSubscription
from epicast.core import Message
from epicast.core.message import Layered
from epicast.wire import encode_datagram

LOOPBACK = "127.0.0.1"
CONFIG = LpbcastConfig(gossip_period_ns=20_000_000)


@asynccontextmanager
async def peers(count: int, **options: object) -> AsyncIterator[list[PeerNode]]:
    """The first is the contact of the others."""
    nodes = [await epicast.join(listen=LOOPBACK, **options)]  # type: ignore[arg-type]
    try:
        for _ in range(count - 1):
            nodes.append(await epicast.join(nodes[0].address, **options))  # type: ignore[arg-type]
        yield nodes
    finally:
        for node in nodes:
            with suppress(epicast.Closed):
                await node.close()


async def joined(
    nodes: list[PeerNode],
    name: str = "chat",
    config: LpbcastConfig | EptoConfig = CONFIG,
    mode: str = "gossip",
) -> tuple[list[Topic], list[TopicSubscription]]:
    """The topic at each of them, and a subscription to it."""
    topics = [node.topic(name, mode, config=config) for node in nodes]
    subscriptions = [topic.subscribe() for topic in topics]
    for topic in topics:
        await topic.joined(20)
    return topics, subscriptions


async def take(subscription: TopicSubscription, count: int) -> list[Event]:
    """So many events, which must come."""
    events: list[Event] = []
    while len(events) < count:
        item = await subscription.get(timeout=20)
        assert isinstance(item, Event), f"{item} after {len(events)} of {count}"
        events.append(item)
    return events


class Stranger:
    """Sends datagrams made by hand."""

    def __init__(self, target: PeerNode, topic: Topic | None = None) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._to = (target.peer.host, target.peer.port)
        self._topic = topic

    def send(self, message: Message, source: int = 77, mtu: int = 1400) -> None:
        layered = message if self._topic is None else Layered(self._topic.number, message)
        self.send_bytes(encode_datagram(source, 1, [layered], mtu))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendto(data, self._to)

    def close(self) -> None:
        self._socket.close()
