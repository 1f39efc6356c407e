"""One region that is a chain, with one stream and one publisher, driven step by step; and, if
wanted, other regions that have nothing to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from epicast.core import EventBatch, NodeId
from epicast.deployment import parse_geoplex
from epicast.protocols.sprinkler import ClientConfig, ProxyConfig, ReplicaProxy
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.node import SimNode

MS = 1_000_000
SECOND = 1000 * MS


class Chain:
    """The stream keeps the latest event of each key."""

    def __init__(
        self,
        replicas: int,
        config: ProxyConfig | None = None,
        others: Sequence[str] = (),
        *,
        on_disk: bool = True,
    ) -> None:
        addresses = [f"a{number}:1" for number in range(replicas)]
        data, ack = ('data = "d"\n', "disk") if on_disk else ("", "memory")
        text = (
            f'name = "g"\n[regions.a]\nreplicas = {addresses}\n{data}'
            f'[streams.s]\nowner = "a"\nack = "{ack}"\nlatest_per_key = true\n'
        ) + "".join(f'[regions.{name}]\nproxy = "{name}:1"\n' for name in others)
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
        self.replicas = sorted(self.geo.replicas["a"], key=place_of)
        """The head first."""
        assert [place_of(node) for node in self.replicas] == list(range(replicas))

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

    def cut_off(self, replica: SimNode, *of: SimNode) -> Callable[[int, int], bool]:
        """Between it and these, or all others, nothing passes."""
        others = {node.id for node in of or self.replicas} - {replica.id}

        def is_cut(source: int, target: int) -> bool:
            ends = {source, target}
            return replica.id in ends and bool(ends & others)

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


def place_of(node: SimNode) -> float:
    assert isinstance(node.protocol, ReplicaProxy)
    return node.protocol.statistics()["chain_place"]
