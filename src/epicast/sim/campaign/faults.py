"""Things that go wrong. Each kind says what it is, and does it; all of it is over at `until_ns`.

To add a kind: a class here or in `damage`, and a line in `drawing_faults.KINDS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from epicast.core import NodeId
from epicast.sim.clock import DriftingClock
from epicast.sim.node import SimNode

if TYPE_CHECKING:
    from epicast.sim.campaign.world import World


COORDINATION = "coordination"
"""What the coordination service is called where nodes have names."""


class Fault(Struct, frozen=True, kw_only=True):
    at_ns: int
    until_ns: int

    def strike(self, world: World) -> None:
        raise NotImplementedError

    def describe(self) -> str:
        values = structs.asdict(self)
        del values["at_ns"], values["until_ns"]
        told = "".join(f" {name}={value}" for name, value in values.items() if value)
        when = f"{self.at_ns / 1e9:.3f} s to {self.until_ns / 1e9:.3f} s"
        return f"{type(self).__name__}{told}, {when}"


class RegionFault(Fault, frozen=True, kw_only=True):
    region: str
    replica: int = 0
    """Which of the region's replicas."""

    def node(self, world: World) -> SimNode:
        replicas = world.replicas(self.region)
        return replicas[self.replica % len(replicas)]


class EdgeFault(Fault, frozen=True, kw_only=True):
    edge: str


# -- nodes ---------------------------------------------------------------------------------------


class Kill(RegionFault, frozen=True, kw_only=True):
    """The process is gone, and what was not synced with it; it comes back."""

    silently: bool = False

    def strike(self, world: World) -> None:
        world.kill(self.node(world), self.until_ns, silently=self.silently)


class KillRegion(Fault, frozen=True, kw_only=True):
    """The power goes: all replicas of a region at once."""

    region: str

    def strike(self, world: World) -> None:
        for node in world.replicas(self.region):
            world.kill(node, self.until_ns)


class KillCoordination(Fault, frozen=True, kw_only=True):
    def strike(self, world: World) -> None:
        node = world.node_named(COORDINATION)
        if node is not None:
            world.kill(node, self.until_ns)


class Replace(RegionFault, frozen=True, kw_only=True):
    """The machine is gone with its disk; another takes its place. In a chain only as long as
    another replica has what this one had."""

    silently: bool = False

    def strike(self, world: World) -> None:
        node = self.node(world)
        if node.alive and can_lose(world, self.region, node):
            world.damaged(node, world.stream_ids())
            world.chains.mark_unwell(node, unknowing=False)
            world.kill(node, self.until_ns, silently=self.silently, lose_disk=True)


def can_lose(world: World, region: str, node: SimNode) -> bool:
    """What a proxy that is alone loses is gone, and it will say so. With its disk it would forget
    whose streams are that were moved."""
    if world.chains.is_chain(region):
        return world.chains.may_lose(region, node)
    return not world.moves_concern(region)


class Stop(RegionFault, frozen=True, kw_only=True):
    """Stopped in good order, and started again."""

    def strike(self, world: World) -> None:
        world.stop(self.node(world), self.until_ns)


class Move(Fault, frozen=True, kw_only=True):
    """Somebody asks whoever owns a stream to hand it over to another region. No fault, but all the
    others may happen meanwhile."""

    stream: str
    to: str

    def strike(self, world: World) -> None:
        world.move(self.stream, self.to)


class KillEdge(EdgeFault, frozen=True, kw_only=True):
    silently: bool = False

    def strike(self, world: World) -> None:
        node = world.edge_node(self.edge)
        if node is not None:
            world.kill(node, self.until_ns, silently=self.silently)


class Pause(RegionFault, frozen=True, kw_only=True):
    def strike(self, world: World) -> None:
        world.pause(self.node(world), self.until_ns)


class PauseEdge(EdgeFault, frozen=True, kw_only=True):
    def strike(self, world: World) -> None:
        node = world.edge_node(self.edge)
        if node is not None:
            world.pause(node, self.until_ns)


class Drift(RegionFault, frozen=True, kw_only=True):
    rate: float

    def strike(self, world: World) -> None:
        node, sim = self.node(world), world.simulation
        _set_pace(world, node, self.rate)
        world.at(self.until_ns, partial(_set_pace, world, node, 0.0))
        sim.record_fault("drift")


def _set_pace(world: World, node: SimNode, rate: float) -> None:
    """Time gained or lost stays so; clocks do not jump."""
    now = world.simulation.now
    local = now if node.clock is None else node.clock.local(now)
    world.simulation.set_clock(node, DriftingClock(rate, now, local - now))


# -- the network ---------------------------------------------------------------------------------


class Cut(Fault, frozen=True, kw_only=True):
    """Nothing passes between these pairs of regions, or not from the first to the second."""

    pairs: tuple[tuple[str, str], ...]
    one_way: bool = False

    def strike(self, world: World) -> None:
        ways = {
            (one.id, other.id)
            for source, target in self.pairs
            for one in world.replicas(source)
            for other in world.replicas(target)
        }
        if not self.one_way:
            ways |= {(other, one) for one, other in ways}
        world.network.cut(ways, self.until_ns)


class CutNodes(Fault, frozen=True, kw_only=True):
    """Nothing passes between one and others, or one way only: replicas, or the coordination
    service."""

    one: str
    others: tuple[str, ...]
    one_way: bool = False
    outward: bool = False

    def strike(self, world: World) -> None:
        one = world.node_named(self.one)
        others = [node for name in self.others if (node := world.node_named(name)) is not None]
        if one is not None:
            world.network.cut(_ways(one, others, self.one_way, self.outward), self.until_ns)


def _ways(
    one: SimNode, others: Iterable[SimNode], one_way: bool, outward: bool
) -> set[tuple[NodeId, NodeId]]:
    ways = set()
    for other in others:
        if not one_way or outward:
            ways.add((one.id, other.id))
        if not one_way or not outward:
            ways.add((other.id, one.id))
    return ways


def isolating(region: str, regions: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((region, other) for other in regions if other != region)


def leaving_a_chain(order: list[str]) -> tuple[tuple[str, str], ...]:
    """Only one path through all regions stays."""
    kept = set(pairwise(order))
    return tuple(pair for pair in combinations(order, 2) if pair not in kept)


class CutEdge(EdgeFault, frozen=True, kw_only=True):
    """An edge and its region do not reach each other, or one not the other."""

    one_way: bool = False
    outward: bool = False
    replica: int | None = None
    """None: all of the region's."""

    def strike(self, world: World) -> None:
        node = world.edge_node(self.edge)
        if node is None:
            return
        proxies = world.replicas(world.region_of(self.edge))
        if self.replica is not None:
            proxies = [proxies[self.replica % len(proxies)]]
        world.network.cut(_ways(node, proxies, self.one_way, self.outward), self.until_ns)


class Weather(Fault, frozen=True, kw_only=True):
    """Packets are lost, doubled and delayed everywhere."""

    loss: float
    duplication: float
    reordering: float

    def strike(self, world: World) -> None:
        world.network.begin(self)
        world.at(self.until_ns, partial(world.network.end, self))
