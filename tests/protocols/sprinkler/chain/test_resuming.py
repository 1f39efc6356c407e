"""All replicas of a region are started again, and some of them have lost part of a stream."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from epicast.core import EventBatch, Recovered
from epicast.core.effects import BeginEpoch, Write
from epicast.deployment import parse_geoplex
from epicast.protocols.sprinkler import ClientConfig, ProxyConfig
from epicast.sim.disk import SimDisk
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.node import SimNode
from tests.protocols.sprinkler.chain.one_region import MS, SECOND, place_of

COUNT = 10
TEXT = """
name = "g"
[regions.a]
replicas = ["a1:1", "a2:1", "a3:1"]
data = "d"
[streams.s]
owner = "a"
ack = "disk"
"""


class OldDisk(SimDisk):
    """Loses the end of a stream, and tells of it once, or does not notice."""

    __slots__ = ("doubtful", "orders")

    def __init__(self, sync_ns: int) -> None:
        super().__init__(sync_ns)
        self.doubtful: frozenset[int] = frozenset()
        self.orders: list[BeginEpoch] = []

    def lose(self, stream: int, end: int, *, noticed: bool) -> None:
        kept = [batch for batch in self._streams[stream] if batch.last <= end]
        assert len(kept) < len(self._streams[stream])
        self._streams[stream] = kept
        self.doubtful = frozenset({stream} if noticed else ())

    def recovered(self, incarnation: int) -> Recovered:
        doubtful, self.doubtful = self.doubtful, frozenset()
        return replace(super().recovered(incarnation), doubtful=doubtful)

    def _tell(self, stored: Sequence[Write]) -> None:
        self.orders += [write for write in stored if isinstance(write, BeginEpoch)]


class Region:
    def __init__(self) -> None:
        self.geo = SimGeoplex(
            parse_geoplex(TEXT, "g"), 1, proxy_config=ProxyConfig(),
            make_disk=lambda _: OldDisk(2 * MS),
        )  # fmt: skip
        self.acknowledged: list[bytes] = []
        self.geo.simulation.on_acknowledge = lambda _, publication, __: self.acknowledged.extend(
            publication.batch.payloads()
        )
        self.stream = self.geo.streams["s"].id
        self.writer = self.geo.add_client("a", "writer", ClientConfig())
        self.published = 0
        self.run(5 * SECOND)
        self.publish(COUNT)
        self.replicas = sorted(self.geo.replicas["a"], key=place_of)
        assert [self.stored(node) for node in self.replicas] == [self.acknowledged] * 3
        [self.epoch] = {self.disk(node).recovered(0).epochs[self.stream] for node in self.replicas}
        for node in self.replicas:
            self.geo.simulation.crash(node)
            self.disk(node).orders.clear()

    def run(self, time: int) -> None:
        self.geo.simulation.run_until(self.geo.simulation.now + time)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.published += 1
            payload = b"e%d" % self.published
            self.geo.publish(self.writer, EventBatch.build(self.stream, self.published, [payload]))
            self.run(100 * MS)
        self.run(SECOND)

    def disk(self, node: SimNode) -> OldDisk:
        assert isinstance(node.disk, OldDisk)
        return node.disk

    def stored(self, node: SimNode) -> list[bytes]:
        batches = self.disk(node).read(self.stream, 1, 1 << 20)
        return [payload for batch in batches for payload in batch.payloads()]

    def start(self, *nodes: SimNode) -> None:
        for node in nodes:
            self.geo.restart(node)

    def epochs(self) -> list[int]:
        return [self.disk(node).recovered(0).epochs[self.stream] for node in self.replicas]


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("damaged", [(0,), (1,), (0, 1), (0, 2), (1, 2)])
def test_a_damaged_replica_empties_no_other(damaged: tuple[int, ...], noticed: bool) -> None:
    region = Region()
    for place in damaged:
        region.disk(region.replicas[place]).lose(region.stream, 4 - place, noticed=noticed)
    region.start(*region.replicas)
    region.run(10 * SECOND)
    assert sorted(map(place_of, region.replicas)) == [0, 1, 2]
    region.publish(3)
    assert len(region.acknowledged) == COUNT + 3
    assert [region.stored(node) for node in region.replicas] == [region.acknowledged] * 3
    assert region.epochs() == [region.epoch] * 3


def test_what_only_a_late_replica_has_is_set_aside_and_not_removed() -> None:
    """The others, which have lost part of it, could wait no longer."""
    region = Region()
    first, second, late = region.replicas
    for node in (first, second):
        region.disk(node).lose(region.stream, 4, noticed=True)
    region.start(first, second)
    region.run(30 * SECOND)
    assert place_of(first) == place_of(second) == -1, "somebody else may have everything"
    region.run(15 * SECOND)
    assert sorted((place_of(first), place_of(second))) == [0, 1]
    region.start(late)
    region.run(5 * SECOND)
    assert place_of(late) == 2
    [epoch] = set(region.epochs())
    assert epoch > region.epoch
    assert BeginEpoch(region.stream, epoch, False, aside=5) in region.disk(late).orders
    assert all(order.keeps for order in region.disk(first).orders)


def test_what_nobody_else_lacks_is_not_set_aside() -> None:
    region = Region()
    *others, late = region.replicas
    region.start(*others)
    region.run(10 * SECOND)
    region.publish(3)
    region.start(late)
    region.run(5 * SECOND)
    assert place_of(late) == 2 and region.stored(late) == region.acknowledged
    assert region.disk(late).orders == []
