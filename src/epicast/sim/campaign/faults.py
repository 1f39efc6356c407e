"""Things that go wrong. Each kind says what it is, and does it; all of it is over at `until_ns`.

To add a kind: a class here, and a line in `drawing.KINDS`.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations, pairwise
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from epicast.log.records import record_ends
from epicast.log.segment import HEADER_BYTES, SUFFIX
from epicast.log.simulated import SimulatedDisk
from epicast.sim.clock import DriftingClock
from epicast.sim.node import SimNode

if TYPE_CHECKING:
    from epicast.sim.campaign.world import World


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
    """Which of the region's replicas; there is one."""

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


class Replace(RegionFault, frozen=True, kw_only=True):
    """The machine is gone with its disk; another takes its place."""

    silently: bool = False

    def strike(self, world: World) -> None:
        node = self.node(world)
        if node.alive:
            world.damaged(self.region, world.stream_ids())
            world.kill(node, self.until_ns, silently=self.silently, lose_disk=True)


class Stop(RegionFault, frozen=True, kw_only=True):
    """Stopped in good order, and started again."""

    def strike(self, world: World) -> None:
        world.stop(self.node(world), self.until_ns)


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
        world.cut(ways, self.until_ns)


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

    def strike(self, world: World) -> None:
        node = world.edge_node(self.edge)
        if node is None:
            return
        proxies = world.replicas(world.region_of(self.edge))
        ways = set()
        for proxy in proxies:
            if not self.one_way or self.outward:
                ways.add((node.id, proxy.id))
            if not self.one_way or not self.outward:
                ways.add((proxy.id, node.id))
        world.cut(ways, self.until_ns)


class Weather(Fault, frozen=True, kw_only=True):
    """Packets are lost, doubled and delayed everywhere."""

    loss: float
    duplication: float
    reordering: float

    def strike(self, world: World) -> None:
        world.begin_weather(self)
        world.at(self.until_ns, partial(world.end_weather, self))


# -- disks ---------------------------------------------------------------------------------------


class DiskFull(RegionFault, frozen=True, kw_only=True):
    def strike(self, world: World) -> None:
        disk = world.disk_of(self.node(world))
        disk.fill()
        world.at(self.until_ns, disk.free)


class Damage(RegionFault, frozen=True, kw_only=True):
    """The machine goes down, and comes back with one stream damaged."""

    choice: float
    """Which stream, and where: a number from 0 to 1 stands for the draw."""

    def strike(self, world: World) -> None:
        node = self.node(world)
        if not node.alive or node.paused:
            return
        disk, rng = world.disk_of(node), Random(self.choice)
        able = self.streams(world)
        if not able:
            return
        stream = rng.choice(able)
        world.kill(node, self.until_ns)
        if self.harm(disk.files[stream], rng):
            world.damaged(self.region, [stream])

    def streams(self, world: World) -> list[int]:
        """On its files and numbered elsewhere. A replica that is alone cannot know that it has lost
        the end of a stream it numbers itself, nor that it woke up in the past: no file says so. It
        would use numbers twice that others have seen. That is why there are chains of replicas."""
        return world.streams_on_files(self.region, owned=False)

    def harm(self, files: SimulatedDisk, rng: Random) -> bool:
        """Whether anything was changed."""
        raise NotImplementedError


class FlipBit(Damage, frozen=True, kw_only=True):
    def streams(self, world: World) -> list[int]:
        """Damage in the midst of a stream can be told from half a write at its end."""
        return world.streams_on_files(self.region, owned=None)

    def harm(self, files: SimulatedDisk, rng: Random) -> bool:
        name, end = _midst(files, rng)
        if not name:
            return False
        files.flip_bit(name, rng.randrange(8 * end))
        return True


def _midst(files: SimulatedDisk, rng: Random) -> tuple[str, int]:
    """A segment, and where its last record begins if it is the last one; else its end."""
    names = [name for name in files.names() if name.endswith(SUFFIX)]
    if not names:
        return "", 0
    name = rng.choice(names)
    size = files.size(name)
    if name != names[-1]:
        return name, size
    view = files.open(name).read(HEADER_BYTES, size - HEADER_BYTES)
    ends = record_ends(view)
    if len(ends) < 2:
        return "", 0
    return name, HEADER_BYTES + ends[-2]


class Truncate(Damage, frozen=True, kw_only=True):
    """A file has lost its end."""

    def harm(self, files: SimulatedDisk, rng: Random) -> bool:
        names = [name for name in files.names() if name.endswith(SUFFIX) and files.size(name)]
        if not names:
            return False
        name = rng.choice(names)
        files.cut_off(name, rng.randrange(files.size(name)))
        return True


class RollBack(Fault, frozen=True, kw_only=True):
    """A snapshot is taken, and some time later the machine starts from it."""

    region: str
    restart_ns: int
    """When it goes down; it is up again at `until_ns`."""

    def strike(self, world: World) -> None:
        node = world.replicas(self.region)[0]
        streams = world.streams_on_files(self.region, owned=False)  # why, `Damage` says
        if node.alive and streams:
            snapshot = world.disk_of(node).snapshot(streams)
            world.at(self.restart_ns, partial(self._restart, world, node, snapshot))

    def _restart(self, world: World, node: SimNode, snapshot: dict[int, Any]) -> None:
        if node.alive and not node.paused:
            world.kill(node, self.until_ns)
            world.disk_of(node).restore(snapshot)
            world.damaged(self.region, list(snapshot))
