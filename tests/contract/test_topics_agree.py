"""A topic delivers the same in the simulator as through the client on the network."""

import asyncio
from collections import defaultdict
from random import Random

import pytest

import epicast
from epicast.core import EventBatch, Host, Peer
from epicast.core.host import HostConfig
from epicast.deployment import topic_id
from epicast.protocols.epto import EptoConfig
from epicast.protocols.lpbcast import LpbcastConfig
from epicast.protocols.topic_modes import TOPIC_MODES, topic_mode
from epicast.runtime import run
from epicast.sim.latency import UniformLatency
from epicast.sim.simulation import Simulation
from tests.integration.runtime.support import eventually
from tests.integration.topics.support import joined, peers

MS = 1_000_000
NODES, LEAVER = 5, 4
CONFIGS = {
    "gossip": LpbcastConfig(gossip_period_ns=20 * MS, max_events=400),
    "ordered": EptoConfig(
        round_period_ns=20 * MS, min_round_ns=20 * MS, shuffle_period_ns=100 * MS, system_size=NODES
    ),
}
Got = dict[int, set[tuple[int, int, bytes, bytes]]]
"""Per node: publisher, number, key and payload."""


def batches(publisher: int, half: int) -> list[tuple[list[bytes], list[bytes]]]:
    """Payloads and keys; one payload is too large for any datagram."""
    payloads = [b"%d/%d/%d" % (publisher, half, number) for number in range(40)]
    payloads[7] *= 2000
    return [
        (payloads[start : start + 7], [b"k%d" % start] * len(payloads[start : start + 7]))
        for start in range(0, len(payloads), 7)
    ]


def expected() -> Got:
    got: Got = {node: set() for node in range(NODES)}
    for publisher in (0, 2):
        number = 0
        for half in (0, 1):
            for payloads, keys in batches(publisher, half):
                for payload, key in zip(payloads, keys, strict=True):
                    number += 1
                    for node in range(NODES):
                        if half == 0 or node != LEAVER:
                            got[node].add((publisher, number, key, payload))
    return got


def in_simulator(mode: str) -> Got:
    number, got = topic_id("chat", mode), defaultdict(set)
    simulation = Simulation(1, latency=UniformLatency(MS // 10, 2 * MS, 1), check_addresses=True)

    def deliver(_: int, node: int, topic: int, batch: EventBatch) -> None:
        assert topic == number
        got[node - 1] |= {(e.stream - 1, e.seq, e.key, e.payload) for e in batch.events()}

    simulation.on_topic_delivery = deliver

    def make(peer: Peer, rng: Random) -> Host:
        host = Host(peer, HostConfig(), rng)
        host.add(number, topic_mode(mode).make(peer, CONFIGS[mode], Random(peer.id)))
        return host

    for identity in range(1, NODES + 1):
        contacts = [simulation.nodes[1].peer] if identity > 1 else []
        simulation.add_node(make, contacts, identity)
    simulation.run_for(1000 * MS)
    numbers = dict.fromkeys((0, 2), 1)
    for half in (0, 1):
        for publisher in (0, 2):
            for payloads, keys in batches(publisher, half):
                batch = EventBatch.build(publisher + 1, numbers[publisher], payloads, keys=keys)
                numbers[publisher] = batch.last + 1
                simulation.publish(simulation.nodes[publisher + 1], batch, number)
        simulation.run_for(3000 * MS)
        if half == 0:
            simulation.stop(simulation.nodes[LEAVER + 1])
            simulation.run_for(200 * MS)
    return dict(got)


async def on_network(mode: str) -> Got:
    got: Got = {node: set() for node in range(NODES)}
    owed = expected()
    async with peers(NODES) as nodes:
        topics, subscriptions = await joined(nodes, config=CONFIGS[mode], mode=mode)
        if mode == "ordered":  # a peer owes nothing from before its order begins
            for topic in topics:
                await eventually(lambda topic=topic: topic.statistics()["epto.settled"])
        index = {node.id: position for position, node in enumerate(nodes)}

        async def collect(node: int, count: int) -> None:
            while len(got[node]) < count:
                item = await subscriptions[node].get(timeout=20)
                if not isinstance(item, epicast.Event):
                    return  # the comparison that follows says what is missing
                got[node].add((index[item.stream], item.seq, item.key, item.payload))

        for half in (0, 1):
            for publisher in (0, 2):
                for payloads, keys in batches(publisher, half):
                    await topics[publisher].publish_many(payloads, keys)
            # The leaver is owed the first half, and so is everybody before it leaves.
            count = len(owed[LEAVER if half == 0 else 0])
            living = [node for node in range(NODES) if half == 0 or node != LEAVER]
            await asyncio.gather(*(collect(node, count) for node in living))
            if half == 0:
                await topics[LEAVER].leave()
    return got


@pytest.mark.parametrize("mode", TOPIC_MODES)
def test_simulator_and_network_deliver_the_same(mode: str) -> None:
    assert in_simulator(mode) == expected()
    assert run(on_network(mode)) == expected()
