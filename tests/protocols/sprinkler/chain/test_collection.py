"""What events collect that turn out never to have been: nothing."""

from __future__ import annotations

from collections.abc import Callable

from epicast.core import EventBatch, NodeId
from epicast.deployment import parse_geoplex
from epicast.protocols.sprinkler import ClientConfig, ProxyConfig, ReplicaProxy
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.node import SimNode

MS = 1_000_000
SECOND = 1000 * MS
LARGE = b"." * 2000


class Chain:
    """One region, one stream that keeps the latest event of each key, one publisher."""

    def __init__(self, replicas: int, config: ProxyConfig | None = None) -> None:
        addresses = [f"a{number}:1" for number in range(replicas)]
        text = (
            f'name = "g"\n[regions.a]\nreplicas = {addresses}\ndata = "d"\n'
            '[streams.s]\nowner = "a"\nack = "disk"\nlatest_per_key = true'
        )
        self.geo = SimGeoplex(
            parse_geoplex(text, "g"), 1, sync_ns=2 * MS, proxy_config=config or ProxyConfig()
        )
        self.simulation = self.geo.simulation
        self.delivered: dict[NodeId, list[bytes]] = {}
        self.acknowledged: list[bytes] = []
        self.on_acknowledge: Callable[[], None] = lambda: None
        self.simulation.on_topic_delivery = self._on_delivery
        self.simulation.on_acknowledge = self._on_acknowledge
        self.publisher = self.geo.add_client("a", "writer", ClientConfig())
        self._published = 0
        self.run(5 * SECOND)
        self.replicas = sorted(self.geo.replicas["a"], key=_place)
        """The head first."""
        assert [_place(node) for node in self.replicas] == list(range(replicas))

    def run(self, time: int) -> None:
        self.simulation.run_until(self.simulation.now + time)

    def publish(self, *events: tuple[bytes, bytes]) -> None:
        for key, payload in events:
            self._published += 1
            stream = self.geo.streams["s"].id
            batch = EventBatch.build(stream, self._published, [payload], keys=[key])
            self.geo.publish(self.publisher, batch)

    def subscribe(self, name: str) -> SimNode:
        node = self.geo.add_client("a", name, ClientConfig())
        self.delivered[node.id] = []
        self.geo.subscribe(node, 1, "s")
        return node

    def cut_off_tail(self) -> Callable[[int, int], bool]:
        """Between it and those before it nothing passes."""
        tail, others = self.replicas[-1].id, {node.id for node in self.replicas[:-1]}

        def is_cut(source: int, target: int) -> bool:
            return (source == tail and target in others) or (target == tail and source in others)

        self.simulation.network.cut(is_cut)
        return is_cut

    def lose_all_but_tail(self) -> None:
        for node in self.replicas[:-1]:
            self.simulation.crash(node)

    def _on_delivery(self, _: int, node: NodeId, number: int, batch: EventBatch) -> None:
        self.delivered[node] += batch.payloads()
        self.geo.consumed(self.simulation.nodes[node], number, batch.last)

    def _on_acknowledge(self, _: NodeId, publication: object, __: int) -> None:
        self.acknowledged += publication.batch.payloads()  # type: ignore[attr-defined]
        self.on_acknowledge()


def _place(node: SimNode) -> float:
    assert isinstance(node.protocol, ReplicaProxy)
    return node.protocol.statistics()["chain_place"]


def test_a_subscriber_is_shown_what_only_a_lost_event_would_have_collected() -> None:
    chain = Chain(3)
    chain.publish((b"a", b"old"))
    chain.run(SECOND)
    assert chain.acknowledged == [b"old"]
    chain.cut_off_tail()
    chain.publish((b"a", b"new"))
    reader = chain.subscribe("early")  # at the head, which has both and may show one
    chain.run(100 * MS)
    assert chain.acknowledged == [b"old"]
    chain.simulation.crash(chain.publisher)  # or it would publish it again
    chain.lose_all_but_tail()
    late = chain.subscribe("late")
    chain.run(10 * SECOND)
    assert chain.delivered == {reader.id: [b"old"], late.id: [b"old"]}


def test_a_successor_gets_what_it_may_have_to_go_on_without_the_collector() -> None:
    """It catches up from history in small steps, and its predecessor is lost between two."""
    chain = Chain(2, ProxyConfig(chunk_bytes=1000, window_bytes=1000, recent_bytes=0))
    cut = chain.cut_off_tail()
    chain.publish((b"x", LARGE))  # which fills the window
    chain.run(50 * MS)
    chain.publish((b"a", b"old"), (b"b", LARGE), (b"a", b"new"))
    chain.run(50 * MS)
    assert not chain.acknowledged

    def lose_head() -> None:
        if b"old" in chain.acknowledged and chain.replicas[0].alive:
            chain.simulation.crash(chain.replicas[0])
            chain.simulation.crash(chain.publisher)

    chain.on_acknowledge = lose_head
    chain.simulation.network.mend(cut)
    chain.run(10 * SECOND)
    assert not chain.replicas[0].alive
    late = chain.subscribe("late")
    chain.run(5 * SECOND)
    assert b"new" in chain.delivered[late.id] or b"old" in chain.delivered[late.id]
