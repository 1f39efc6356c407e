"""Several peers in a process of their own, told what to do by lines of JSON on stdin.

For demonstrations and tests that need real processes: they can be killed like any other.
`python -m epicast.runtime.peers` reads a `Setup`, answers with the peers' addresses, then takes
`Publish`, `Report` and `Stop` until stdin ends.
"""

from __future__ import annotations

import asyncio
import sys
import time
from random import Random

import msgspec
from msgspec import Struct

from epicast.core import EventBatch, IntervalSet, NodeId, Peer
from epicast.core.sampling import derive_seed
from epicast.protocols.catalog import stack_factory
from epicast.protocols.hyparview import HyParViewConfig
from epicast.runtime.driver import NodeDriver
from epicast.runtime.run import run

_DELAYS_KEPT = 100_000


class Setup(Struct):
    nodes: list[NodeId]
    contacts: list[Peer]
    stack: list[str]
    active_view: int = 5
    seed: int = 1


class Publish(Struct, tag="publish"):
    node: NodeId
    events: int
    batch: int
    size: int


class Report(Struct, tag="report"):
    pass


class Stop(Struct, tag="stop"):
    pass


Command = Publish | Report | Stop


class PeerReport(Struct):
    node: NodeId
    delivered: int
    """Events, each counted once."""
    duplicates: int
    had: dict[int, list[tuple[int, int]]]
    """Per publisher, the intervals of sequence numbers delivered."""
    neighbors: int
    delays_us: list[int]
    """From publication to delivery, one per batch."""


class _LivePeer:
    def __init__(self, identity: NodeId) -> None:
        self.driver = NodeDriver(identity, on_delivery=self._take)
        self.had: dict[int, IntervalSet] = {}
        self.delivered = 0
        self.duplicates = 0
        self.delays_us: list[int] = []
        self.next_sequence = 1

    async def start(self, setup: Setup, contacts: list[Peer]) -> Peer:
        peer = await self.driver.listen()
        config = HyParViewConfig(active_view=setup.active_view)
        factory = stack_factory(setup.stack, {"hyparview": config})
        self.stack = factory(peer, Random(derive_seed(setup.seed, peer.id)))
        await self.driver.start(self.stack, contacts)
        return peer

    async def publish(self, command: Publish) -> None:
        remaining = command.events
        while remaining:
            rows = min(remaining, command.batch)
            batch = EventBatch.build(
                self.driver.node.id,
                self.next_sequence,
                [b"x" * command.size] * rows,
                time=time.time_ns(),
            )
            self.next_sequence += rows
            remaining -= rows
            await self.driver.publish(batch)
            await asyncio.sleep(0)

    def report(self) -> PeerReport:
        return PeerReport(
            self.driver.node.id,
            self.delivered,
            self.duplicates,
            {stream: list(intervals) for stream, intervals in self.had.items()},
            len(self.stack.neighbors()),
            self.delays_us,
        )

    def _take(self, batches: list[EventBatch]) -> None:
        now = time.time_ns()
        for batch in batches:
            had = self.had.setdefault(batch.stream, IntervalSet())
            new = sum(b - a + 1 for a, b in had.add_new(batch.first, batch.last))
            self.delivered += new
            self.duplicates += batch.last - batch.first + 1 - new
            if len(self.delays_us) < _DELAYS_KEPT:
                self.delays_us.append((now - int(batch.times[0])) // 1000)


async def _serve() -> None:
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    setup = msgspec.json.decode(await reader.readline(), type=Setup)
    peers: dict[NodeId, _LivePeer] = {}
    contacts = list(setup.contacts)
    try:
        for identity in setup.nodes:
            peers[identity] = _LivePeer(identity)
            contacts.append(await peers[identity].start(setup, contacts[:3]))
        _answer([peer.driver.node for peer in peers.values()])
        while line := await reader.readline():
            command = msgspec.json.decode(line, type=Command)
            if isinstance(command, Publish):
                await peers[command.node].publish(command)
                _answer("published")
            elif isinstance(command, Report):
                _answer([peer.report() for peer in peers.values()])
            else:
                break
    finally:
        for peer in peers.values():
            await peer.driver.stop()
        pipe.close()


def _answer(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    run(_serve())
