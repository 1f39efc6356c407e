"""One scripted scenario for both drivers: join, publish, leave, publish again."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from epicast.core import Event, EventBatch, NodeId, Peer, Protocol
from epicast.runtime import NodeDriver
from epicast.sim.latency import UniformLatency
from epicast.sim.simulation import Simulation

MS = 1_000_000
SECOND = 1_000_000_000

Factory = Callable[[Peer, Random], Protocol[Any]]
Delivered = dict[NodeId, dict[int, list[Event]]]
"""Per node and publisher, the events in the order of their numbers."""


@dataclass(frozen=True)
class Script:
    """`leaver` goes after everybody has the first half of the events."""

    factory: Factory
    nodes: int = 6
    publishers: tuple[NodeId, ...] = (1, 3, 6)
    events: int = 1000
    batch: int = 7
    leaver: NodeId = 4

    def batches(self, publisher: NodeId, half: int) -> list[EventBatch]:
        """Every event differs in key, payload and time, so that any mix-up shows."""
        numbers = (
            range(1, self.events // 2 + 1)
            if half == 0
            else range(self.events // 2 + 1, self.events + 1)
        )
        batches = []
        for start in range(0, len(numbers), self.batch):
            part = numbers[start : start + self.batch]
            batches.append(
                EventBatch.build(
                    publisher,
                    part[0],
                    [f"{publisher}/{number}".encode() * (number % 5) for number in part],
                    keys=[f"key-{number % 17}".encode() for number in part],
                    time=[number * 1000 + publisher for number in part],
                )
            )
        return batches

    def expected(self, node: NodeId) -> dict[int, list[Event]]:
        halves = (0,) if node == self.leaver else (0, 1)
        return {
            publisher: [
                event
                for half in halves
                for batch in self.batches(publisher, half)
                for event in batch.events()
            ]
            for publisher in self.publishers
        }


@dataclass
class Collector:
    delivered: dict[NodeId, dict[int, list[Event]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def take(self, node: NodeId, batch: EventBatch) -> None:
        self.delivered[node][batch.stream].extend(batch.events())

    def count(self, node: NodeId) -> int:
        return sum(map(len, self.delivered[node].values()))

    def sorted(self) -> Delivered:
        return {
            node: {
                stream: sorted(events, key=lambda event: event.seq)
                for stream, events in sorted(streams.items())
            }
            for node, streams in sorted(self.delivered.items())
        }


def run_in_simulator(script: Script, seed: int = 1) -> Delivered:
    collector = Collector()
    simulation = Simulation(
        seed,
        latency=UniformLatency(MS // 10, 2 * MS, seed),
        check_addresses=True,
        on_delivery=lambda _, node, batch: collector.take(node, batch),
    )
    for identity in range(1, script.nodes + 1):
        contacts = [simulation.nodes[1].peer] if identity > 1 else []
        simulation.add_node(script.factory, contacts, identity)
        simulation.run_for(50 * MS)
    simulation.run_for(SECOND)
    for half in (0, 1):
        for publisher in script.publishers:
            for batch in script.batches(publisher, half):
                simulation.publish(simulation.nodes[publisher], batch)
        simulation.run_for(5 * SECOND)
        if half == 0:
            simulation.stop(simulation.nodes[script.leaver])
            simulation.run_for(5 * SECOND)
    return collector.sorted()


async def run_on_network(script: Script, seed: int = 1) -> Delivered:
    collector = Collector()
    drivers: dict[NodeId, NodeDriver] = {}
    try:
        for identity in range(1, script.nodes + 1):
            driver = NodeDriver(identity, seed=seed, on_delivery=_collect(collector, identity))
            peer = await driver.listen()
            contacts = [drivers[1].node] if identity > 1 else []
            await driver.start(script.factory(peer, Random(seed * 1000 + identity)), contacts)
            drivers[identity] = driver
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        for half in (0, 1):
            for publisher in script.publishers:
                for batch in script.batches(publisher, half):
                    await drivers[publisher].publish(batch)
            owed = len(script.publishers) * script.events * (half + 1) // 2
            await _until(lambda owed=owed: all(collector.count(node) >= owed for node in drivers))
            if half == 0:
                await drivers.pop(script.leaver).stop()
                await asyncio.sleep(0.5)
    finally:
        for driver in drivers.values():
            await driver.stop()
    return collector.sorted()


def _collect(collector: Collector, node: NodeId) -> Callable[[list[EventBatch]], None]:
    def take(batches: list[EventBatch]) -> None:
        for batch in batches:
            collector.take(node, batch)

    return take


async def _until(done: Callable[[], bool], timeout: float = 60.0) -> None:
    """Give up quietly: the comparison that follows says what is missing."""
    for _ in range(int(timeout / 0.02)):
        if done():
            await asyncio.sleep(0.1)  # anything delivered twice would still be on its way
            return
        await asyncio.sleep(0.02)
