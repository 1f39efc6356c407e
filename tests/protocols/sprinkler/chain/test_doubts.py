"""Replicas that may have lost something: they remember it, for as long as it is so."""

from __future__ import annotations

from msgspec.structs import replace

from epicast.core import EventBatch, Recovered
from epicast.deployment import parse_geoplex
from epicast.protocols.sprinkler import ClientConfig, ProxyConfig, ReplicaProxy
from epicast.sim.disk import SimDisk
from epicast.sim.geoplex import SimGeoplex

MS = 1_000_000
SECOND = 1000 * MS
TEXT = """
name = "g"
[regions.a]
replicas = ["a1:1", "a2:1"]
data = "d"
[streams.s]
owner = "a"
ack = "disk"
"""


class OldDisk(SimDisk):
    """What it has lost it says once, like files that are cut where they are damaged."""

    __slots__ = ("lost",)

    def __init__(self, sync_ns: int) -> None:
        super().__init__(sync_ns)
        self.lost: frozenset[int] = frozenset()

    def recovered(self, incarnation: int) -> Recovered:
        lost, self.lost = self.lost, frozenset()
        return replace(super().recovered(incarnation), doubtful=lost)


class Chain:
    def __init__(self) -> None:
        config = ProxyConfig(resume_after_ns=SECOND)
        self.geo = SimGeoplex(
            parse_geoplex(TEXT, "g"), 1, proxy_config=config, make_disk=lambda _: OldDisk(2 * MS)
        )
        self.stream = self.geo.streams["s"].id
        self.first, self.second = self.geo.replicas["a"]
        publisher = self.geo.add_client("a", "writer", ClientConfig())
        self.run(3 * SECOND)
        self.geo.publish(publisher, EventBatch.build(self.stream, 1, [b"x"] * 5))
        self.run(SECOND)

    def run(self, time: int) -> None:
        self.geo.simulation.run_until(self.geo.simulation.now + time)

    def crash(self, *nodes) -> None:
        for node in nodes:
            self.geo.simulation.crash(node)

    def restart(self, node, *, doubtful: bool = False) -> None:
        assert isinstance(node.disk, OldDisk)
        node.disk.lost = frozenset({self.stream} if doubtful else ())
        self.geo.restart(node)

    def is_member(self, node) -> bool:
        assert isinstance(node.protocol, ReplicaProxy)
        return node.protocol.is_member

    def at(self, node) -> tuple[int, int]:
        assert isinstance(node.protocol, ReplicaProxy) and node.protocol.is_member
        return node.protocol.furthest(self.stream)


def test_who_was_started_twice_remembers_that_it_may_lack_something() -> None:
    chain = Chain()
    epoch, end = chain.at(chain.first)
    assert end == 5
    chain.crash(chain.first, chain.second)
    chain.restart(chain.first, doubtful=True)
    chain.run(500 * MS)  # it does not go on alone yet
    chain.crash(chain.first)
    chain.restart(chain.first)
    chain.run(3 * SECOND)
    assert not chain.is_member(chain.first)  # the other one may have everything
    chain.run(10 * SECOND)
    now, end = chain.at(chain.first)
    assert now > epoch and end == 5
    chain.crash(chain.first)
    chain.restart(chain.first)
    chain.run(3 * SECOND)
    assert chain.at(chain.first) == (now, 5)  # it has said so once


def test_who_was_let_in_has_everything_even_if_it_is_started_again() -> None:
    chain = Chain()
    before = chain.at(chain.first)
    chain.crash(chain.second)
    chain.run(SECOND)
    chain.restart(chain.second, doubtful=True)
    chain.run(SECOND)
    assert chain.at(chain.second) == before
    chain.crash(chain.first, chain.second)
    chain.restart(chain.second)
    chain.run(5 * SECOND)
    assert chain.at(chain.second) == before
