"""Topics over seeds, with nodes that refuse publications and crash while events are in flight.

A node that is started again is another publisher, as in the client library: its id is drawn anew.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from epicast.core import EventBatch, Host, Peer, Publication
from epicast.core.host import HostConfig
from epicast.deployment import topic_id
from epicast.protocols.epto import EptoConfig, Missing
from epicast.protocols.lpbcast import LpbcastConfig
from epicast.protocols.topic_modes import TOPIC_MODES, topic_mode
from epicast.sim.latency import UniformLatency
from epicast.sim.node import SimNode
from epicast.sim.simulation import Simulation

MS = 1_000_000
NODES, PUBLISHERS = 6, 3
MOST_BYTES = 2000
CONFIGS = {
    "gossip": LpbcastConfig(gossip_period_ns=20 * MS, max_events=400, max_event_bytes=MOST_BYTES),
    "ordered": EptoConfig(
        round_period_ns=20 * MS, min_round_ns=20 * MS, shuffle_period_ns=100 * MS,
        system_size=NODES, max_event_bytes=MOST_BYTES, max_buffer_bytes=40 * MOST_BYTES,
    ),
}  # fmt: skip
Name = tuple[int, int]
"""Publisher and its number."""


class Topic:
    """A topic in the simulator, and what everybody in it has published and got."""

    def __init__(self, mode: str, seed: int) -> None:
        self.mode = mode
        self.number = topic_id("chat", mode)
        self.rng = Random(seed)
        self.simulation = Simulation(seed, latency=UniformLatency(MS // 10, 2 * MS, seed))
        self.simulation.on_topic_delivery = self._on_delivery
        self.simulation.on_refuse = self._on_refuse
        self.simulation.on_notice = self._on_notice
        self.got: dict[int, list[tuple[Name, bytes]]] = defaultdict(list)
        self.accepted: dict[Name, bytes] = {}
        self.on_the_way: dict[int, EventBatch] = {}
        """By publisher: what it has handed over and does not know to be accepted yet."""
        self.refused: set[bytes] = set()
        self.missing: set[Name] = set()
        self.next: dict[int, int] = defaultdict(lambda: 1)
        self.nodes = [self._start(identity) for identity in range(1, NODES + 1)]
        self.simulation.run_for(1000 * MS)

    def _start(self, identity: int) -> SimNode:
        others = [node for node in self.simulation.live_nodes() if node.id != identity]
        contacts = [self.rng.choice(others).peer] if others else []
        return self.simulation.add_node(self._make, contacts, identity)

    def _make(self, peer: Peer, rng: Random) -> Host:
        host = Host(peer, HostConfig(), rng)
        made = topic_mode(self.mode).make(peer, CONFIGS[self.mode], Random(peer.id))
        host.add(self.number, made)
        return host

    # What happens

    def _on_delivery(self, _: int, node: int, topic: int, batch: EventBatch) -> None:
        assert topic == self.number
        self.got[node] += [((event.stream, event.seq), event.payload) for event in batch.events()]

    def _on_refuse(self, node: int, publication: Publication, _: str) -> None:
        batch = self.on_the_way.pop(node)
        assert batch.first == publication.first
        self.refused |= set(batch.payloads())

    def _on_notice(self, _: int, __: int, ___: int, value: object) -> None:
        if isinstance(value, Missing):
            self.missing |= {(value.source, n) for n in range(value.first, value.last + 1)}

    def publish(self, node: SimNode) -> None:
        """Publish some events, unless earlier ones still wait for room. A refused batch leaves its
        numbers to the next one, since no other node has seen them."""
        if node.unpublished:
            return
        self.settle(node)
        first, rng = self.next[node.id], self.rng
        size = rng.choice((20, 20, 20, MOST_BYTES - 100, MOST_BYTES + 1))
        payloads = [b"%d/%d/%d." % (node.id, first + at, rng.getrandbits(60)) for at in range(
            rng.choice((1, 5, 30))
        )]  # fmt: skip
        payloads[rng.randrange(len(payloads))] += b"." * size
        batch = EventBatch.build(node.id, first, payloads)
        self.on_the_way[node.id] = batch
        self.simulation.publish(node, batch, self.number)

    def settle(self, node: SimNode) -> None:
        batch = self.on_the_way.pop(node.id, None)
        if batch is not None:
            self.next[node.id] = batch.last + 1
            names = [(node.id, number) for number in range(batch.first, batch.last + 1)]
            self.accepted.update(zip(names, batch.payloads(), strict=True))

    def crash(self, at: int) -> None:
        """A publisher is gone, whatever it has on its way; another one takes its place."""
        node = self.nodes[at]
        if not node.unpublished:
            self.settle(node)  # else it may have been accepted, or not
        self.simulation.crash(node, silently=self.rng.random() < 0.5)
        self.simulation.run_for(self.rng.randrange(300) * MS)
        self.nodes[at] = self._start(node.id + 100)

    # What must hold

    def check(self) -> None:
        lasting = {node.id for node in self.nodes if node.id <= NODES}
        owed = {name for name in self.accepted if name[0] in lasting}
        possible = dict(self.accepted)
        for publisher, batch in self.on_the_way.items():
            names = ((publisher, n) for n in range(batch.first, batch.last + 1))
            possible.update(zip(names, batch.payloads(), strict=True))
        for node, got in self.got.items():
            mine = [name for name, _ in got]
            assert len(set(mine)) == len(mine), "delivered twice"
            assert all(possible[name] == payload for name, payload in got)
            assert not {payload for _, payload in got} & self.refused
            if node in lasting:
                assert not owed - set(mine), sorted(owed - set(mine))[:5]
        assert not {name for name in self.missing if name[0] in lasting}
        if self.mode == "ordered":
            self._check_order()

    def _check_order(self) -> None:
        orders = [[name for name, _ in got] for got in self.got.values()]
        for order in orders:
            for publisher in {publisher for publisher, _ in order}:
                mine = [number for who, number in order if who == publisher]
                assert mine == sorted(mine)
            places = {name: place for place, name in enumerate(order)}
            for other in orders:
                common = [places[name] for name in other if name in places]
                assert common == sorted(common)


@pytest.mark.parametrize("mode", TOPIC_MODES)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_accepted_comes_once_and_what_is_refused_never(mode: str, seed: int) -> None:
    topic = Topic(mode, seed)
    for _ in range(4):
        for _ in range(30):
            for node in topic.nodes[:PUBLISHERS]:
                if topic.rng.random() < 0.7:
                    topic.publish(node)
            topic.simulation.run_for(topic.rng.choice((1, 10, 50)) * MS)
        topic.crash(topic.rng.randrange(PUBLISHERS))
    topic.simulation.run_for(5000 * MS)
    for node in topic.nodes:
        assert not node.unpublished, "a publication was never taken up"
        topic.settle(node)
    assert topic.refused
    assert len(topic.accepted) > 200
    topic.check()
