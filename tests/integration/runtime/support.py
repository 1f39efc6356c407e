"""A scripted protocol, nodes that run it, and peers that speak the wire format by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

from epicast.core import (
    AnyMessage,
    Effects,
    EventBatch,
    NodeId,
    Peer,
    Protocol,
    Publication,
    Recovered,
)
from epicast.core.effects import BeginEpoch
from epicast.runtime import NodeDriver
from epicast.runtime.messages import Accepted
from epicast.wire import FrameDecoder, FrameEncoder, Handshake, Hello

TRIGGER = EventBatch.build(999, 1, [b""])
Action = Callable[[Effects], object]

started: list[NodeDriver] = []
"""What a test that fails would leave running; uvloop does not close a loop with such leftovers."""


class Scripted(Protocol[None]):
    """Writes down what happens to it; does what it is told, at its next publication."""

    def __init__(self, node: Peer) -> None:
        super().__init__(node, None, Random(node.id))
        self.log: list[tuple[Any, ...]] = []
        self.actions: list[Action] = []
        self.on_up: list[Action] = []
        self.room_for_publications = 1 << 30
        self.recovered = Recovered()
        self.stopped = False

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        self.recovered = recovered
        for contact in contacts:
            fx.connect(contact)

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        for publication in publications:
            if publication.batch.stream != TRIGGER.stream:
                self.log.append(("publish", publication.batch.first, publication.batch.last))
        actions, self.actions = self.actions, []
        for action in actions:
            action(fx)

    def publish_room(self) -> int:
        return self.room_for_publications

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None:
        self.log += [("message", source, message) for message in messages]

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        self.log.append(("up", peer))
        for action in self.on_up:
            action(fx)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        self.log.append(("down", peer))

    def on_ready(self, now: int, peer: NodeId, room: int, fx: Effects) -> None:
        self.log.append(("ready", peer, room))

    def on_appended(self, now: int, stream: int, seq: int, fx: Effects) -> None:
        self.log.append(("appended", stream, seq))

    def on_append_failed(self, now: int, stream: int, first: int, reason: str, fx: Effects) -> None:
        self.log.append(("append failed", stream, first, reason))

    def on_epoch_failed(self, now: int, order: BeginEpoch, reason: str, fx: Effects) -> None:
        self.log.append(("epoch failed", order.stream, order.epoch, reason))

    def on_read(self, now: int, token: int, batches: Sequence[EventBatch], fx: Effects) -> None:
        self.log.append(("read", token, [(batch.first, batch.last) for batch in batches]))

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        self.log.append(("deadline", name))

    def on_stop(self, now: int, fx: Effects) -> None:
        self.stopped = True


class Node:
    """A driver with a scripted protocol."""

    def __init__(self, driver: NodeDriver, protocol: Scripted) -> None:
        self.driver = driver
        self.protocol = protocol
        self.log = protocol.log

    @property
    def peer(self) -> Peer:
        return self.driver.node

    def do(self, *actions: Action) -> None:
        """Have the protocol do this in its next step."""
        self.protocol.actions += actions
        self.driver.publish_nowait(TRIGGER)

    def reports(self, peer: NodeId) -> list[str]:
        """The ups and downs of a peer."""
        return [entry[0] for entry in self.log if entry[1:] == (peer,)]

    def messages(self) -> list[AnyMessage]:
        return [entry[2] for entry in self.log if entry[0] == "message"]

    def count(self, name: str) -> int:
        return self.driver.statistics().get(name, 0)


@asynccontextmanager
async def node(
    node_id: NodeId, contacts: Sequence[Peer] = (), **options: Any
) -> AsyncIterator[Node]:
    driver = NodeDriver(node_id, **options)
    started = await start(driver, contacts)
    try:
        yield started
    finally:
        await driver.stop()


async def start(
    driver: NodeDriver,
    contacts: Sequence[Peer] = (),
    make: Callable[[Peer], Scripted] = Scripted,
) -> Node:
    started.append(driver)
    peer = await driver.listen()
    protocol = make(peer)
    await driver.start(protocol, contacts)
    return Node(driver, protocol)


async def eventually(condition: Callable[[], object], what: str = "") -> None:
    """Wait for something that must happen; how long it takes does not matter."""
    for _ in range(4000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"still not so after 20 seconds: {what or condition}")


async def turns(count: int = 20) -> None:
    """Let everything happen that is under way."""
    for _ in range(count):
        await asyncio.sleep(0.001)


class HandMade:
    """A peer that does only what it is told; reads nothing unless asked to."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handshake: Handshake
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.handshake = handshake
        self._decoder = FrameDecoder()
        self._encoder = FrameEncoder()
        self._messages: list[AnyMessage] = []

    async def introduce(self) -> None:
        """Exchange greetings and agree on this connection."""
        self.writer.write(self.handshake.outgoing)
        greeting = b""
        while not (taken := self.handshake.received(greeting)):
            greeting += await self._read()
        self._messages += self._decoder.feed(greeting[taken:])
        assert self.handshake.remote is not None
        if self.handshake._local.node.id < self.handshake.remote.node.id:
            self.send(Accepted())
        else:
            assert await self.receive() == Accepted()

    async def _read(self) -> bytes:
        data = await self.reader.read(1 << 16)
        if not data:
            raise ConnectionResetError("the node closed the connection")
        return data

    def send(self, *messages: AnyMessage) -> None:
        for message in messages:
            self.writer.writelines(self._encoder.encode(message))

    async def receive(self) -> AnyMessage:
        while not self._messages:
            self._messages += self._decoder.feed(await self._read())
            assert self._decoder.error is None
        return self._messages.pop(0)

    async def is_closed(self) -> bool:
        """Wait for the node to close; False if it sends a message instead."""
        try:
            await self.receive()
        except ConnectionError:
            return True
        return False

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def hand_made(
    to: Peer,
    node_id: NodeId,
    *,
    incarnation: int = 1,
    cluster: str = "epicast",
    introduce: bool = True,
    receive_buffer: int = 1 << 16,
) -> AsyncIterator[HandMade]:
    """A connection to a node, from a peer that listens nowhere."""
    reader, writer = await asyncio.open_connection(to.host, to.port, limit=receive_buffer)
    hello = Hello(Peer(node_id, "127.0.0.1", 1), incarnation, cluster)
    peer = HandMade(reader, writer, Handshake(hello))
    try:
        if introduce:
            await peer.introduce()
        yield peer
    finally:
        await peer.close()
