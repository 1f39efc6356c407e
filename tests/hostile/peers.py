"""Systems of equal nodes: the protocol stacks of the catalogue, and topics of every mode.

Memberships and gossip believe every node that takes part, and any node may take part. After a storm
a node may therefore know no honest node any more; the test asks only that nodes go on within their
bounds. In a topic with rights a node without rights must have no effect at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from epicast.client.topics.guard import GuardedTopic
from epicast.core import AnyMessage, EventBatch, Host, Layered, Message, NodeId, Peer, Protocol
from epicast.core.host import HostConfig
from epicast.deployment import AccessControl, parse_geoplex
from epicast.protocols.catalog import stack_factory
from epicast.protocols.epto import EptoConfig
from epicast.protocols.lpbcast import LpbcastConfig
from epicast.protocols.topic_modes import TOPIC_MODES, checked_config, topic_mode
from epicast.runtime.gate import Rights
from epicast.sim.latency import UniformLatency
from epicast.sim.node import SimNode
from epicast.sim.simulation import Simulation
from tests.hostile.storm import System, silent

MS, SECOND = 1_000_000, 1_000_000_000
NODES = 6
HONEST = range(1, NODES + 1)
MEMBER, READER, STRANGER = NODES + 1, NODES + 2, NODES + 3
PUBLISH_EVERY_NS = 200 * MS


class Peers(System):
    """Six honest nodes and one that is hostile, and publications of all honest ones."""

    pause_ns = 5 * MS

    def __init__(self, seed: int, sender: str, messages: int) -> None:
        self._sender = sender
        self.simulation = Simulation(seed, latency=UniformLatency(MS // 10, 5 * MS, seed))
        self._published: dict[tuple[int, NodeId], list[bytes]] = defaultdict(list)
        """By topic and publisher."""
        self._publishes = True
        for number in (*HONEST, MEMBER):
            contacts = [Peer(1)] if number > 1 else []
            self.simulation.add_node(self.make, contacts, node_id=number)
        for number in (READER, STRANGER):
            self.simulation.add_node(silent, node_id=number)

    def make(self, node: Peer, rng: Random) -> Protocol[Any]:
        raise NotImplementedError

    def topics(self) -> Sequence[int]:
        return (0,)

    def targets(self) -> Sequence[SimNode]:
        return [self.simulation.nodes[number] for number in HONEST]

    def sources(self) -> Sequence[NodeId]:
        return {"stranger": [STRANGER], "client": [READER], "member": [MEMBER]}[self._sender]

    def begin(self) -> None:
        self.simulation.run_for(SECOND)
        self._publish()
        self.simulation.run_for(2 * SECOND)

    def end(self) -> None:
        self.simulation.run_for(3 * SECOND)
        self._publishes = False
        self.simulation.run_for(5 * SECOND)

    def _publish(self, *_: object) -> None:
        if not self._publishes:
            return
        for topic in self.topics():
            for number in HONEST:
                published = self._published[topic, number]
                payloads = [b"%d:%d" % (number, len(published) + at) for at in range(2)]
                batch = EventBatch.build(number, len(published) + 1, payloads)
                published += payloads
                self.simulation.publish(self.simulation.nodes[number], batch, topic=topic)
        self.simulation.scheduler.at(self.simulation.now + PUBLISH_EVERY_NS, self._publish)


class Stacked(Peers):
    """One of the stacks of the catalogue."""

    senders = ("stranger", "member")
    layers: tuple[str, ...]

    def make(self, node: Peer, rng: Random) -> Protocol[Any]:
        return stack_factory(self.layers, {})(node, rng)

    def handled(self, target: SimNode) -> Sequence[type[Message]]:
        return list(self._layer_of(target))

    def _layer_of(self, target: SimNode) -> Mapping[type[Message], int]:
        found: dict[type[Message], int] = {}
        for at, layer in enumerate(target.protocol.layers):  # type: ignore[attr-defined]
            found |= dict.fromkeys(layer._handlers, at)
        return found

    def wrapped(self, target: SimNode, message: Message, rng: Random) -> AnyMessage | None:
        if rng.random() < 0.02:
            return message
        layer = self._layer_of(target).get(type(message), 0)
        return Layered(rng.choice((layer,) * 30 + (1 - layer, 2**32 - 1)), message)


def stacked(*layers: str) -> type[System]:
    return type("-".join(layers), (Stacked,), {"layers": layers})


STACKS = [
    stacked("hyparview", "flood"),
    stacked("cyclon", "gossip"),
    stacked("scamp", "gossip"),
    stacked("lpbcast"),
    stacked("reinforcement", "gossip"),
    stacked("hyparview", "pbcast"),
    stacked("cyclon", "epto"),
    stacked("scamp", "lpbcast"),
]

# -- topics ----------------------------------------------------------------------------------------

GEOPLEX = """
name = "topics"
[regions.us]
proxy = "127.0.0.1:7400"
[security]
ca = "ca.pem"
[security.identities.member]
certificate = "member"
[security.identities.reader]
certificate = "reader"
[[security.rights]]
identities = ["member"]
topics = ["chat"]
allow = ["publish", "subscribe"]
[[security.rights]]
identities = ["reader"]
topics = ["chat"]
allow = ["subscribe"]
"""
CONFIGS = {
    "gossip": LpbcastConfig(gossip_period_ns=50 * MS, max_events=400),
    "ordered": EptoConfig(
        round_period_ns=50 * MS, min_round_ns=50 * MS, shuffle_period_ns=200 * MS
    ),
}


class Topics(Peers):
    """Nodes with two topics of each mode, one with rights and one without. Readers of a topic pass
    on its events and are believed, so only strangers must have no effect on a topic with rights."""

    senders = ("stranger", "client", "member")
    weight = 2

    def __init__(self, seed: int, sender: str, messages: int) -> None:
        self._guarded = {100 + at: mode for at, mode in enumerate(TOPIC_MODES, 1)}
        self._modes = dict(enumerate(TOPIC_MODES, 1)) | self._guarded
        found = parse_geoplex(GEOPLEX, "topics.toml").access()
        assert found is not None
        self._access: AccessControl = found
        self._identities = dict.fromkeys((*HONEST, MEMBER), "member") | {READER: "reader"}
        self._got: dict[tuple[int, NodeId], list[tuple[int, int, bytes]]] = defaultdict(list)
        """By topic and node, in the order it came: publisher, number, payload."""
        super().__init__(seed, sender, messages)
        self.simulation.on_topic_delivery = self._on_delivery

    def make(self, node: Peer, rng: Random) -> Protocol[Any]:
        host = Host(node, HostConfig(), rng)
        for topic, mode in self._modes.items():
            config = checked_config(mode, CONFIGS.get(mode))
            inner = topic_mode(mode).make(node, config, Random(rng.getrandbits(64)))
            if topic in self._guarded:
                inner = GuardedTopic(inner, "chat", Rights(self._access, self._identities.get))
            host.add(topic, inner)
        return host

    def topics(self) -> Sequence[int]:
        return list(self._modes)

    def handled(self, target: SimNode) -> Sequence[type[Message]]:
        return [kind for topic in self._modes for kind in self._layers(target, topic)]

    def _layers(self, target: SimNode, topic: int) -> Mapping[type[Message], int | None]:
        """By message type, the layer within the topic; None if it has no layers."""
        host = target.protocol
        assert isinstance(host, Host)
        protocol = host.protocol(topic)
        inner = protocol.inner if isinstance(protocol, GuardedTopic) else protocol
        layers = getattr(inner, "layers", None)
        if layers is None:
            return dict.fromkeys(inner._handlers)  # type: ignore[union-attr, arg-type]
        return {kind: at for at, layer in enumerate(layers) for kind in layer._handlers}

    def wrapped(self, target: SimNode, message: Message, rng: Random) -> AnyMessage | None:
        ways = [
            (topic, layers[type(message)])
            for topic in self._modes
            if type(message) in (layers := self._layers(target, topic))
        ]
        if rng.random() < 0.02 or not ways:
            return Layered(rng.choice((*self._modes, 0, 2**32 - 1)), message)
        topic, layer = rng.choice(ways)
        return Layered(topic, message if layer is None else Layered(layer, message))

    def _on_delivery(self, _: int, node: NodeId, topic: int, batch: EventBatch) -> None:
        if self._sender == "stranger" and topic in self._guarded and node in HONEST:
            for event in batch.events():
                self._got[topic, node].append((batch.stream, event.seq, event.payload))
                expected = self._published[topic, batch.stream]
                assert expected[event.seq - 1 : event.seq] == [event.payload], f"{topic}: {event}"

    def end(self) -> None:
        super().end()
        if self._sender != "stranger":
            return
        for topic, mode in self._guarded.items():
            orders = [self._got[topic, node] for node in HONEST]
            for order in orders:
                assert len(set(order)) == len(order)
                for publisher in HONEST:
                    owed = self._published[topic, publisher]
                    got = sum(each[0] == publisher for each in order)
                    assert got == len(owed), f"{mode}: {got} of {len(owed)} of {publisher}"
            if mode == "ordered":
                assert all(order == orders[0] for order in orders)
