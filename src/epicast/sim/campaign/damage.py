"""Things that go wrong with disks."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, ClassVar

from epicast.log.records import record_ends
from epicast.log.segment import HEADER_BYTES, SUFFIX
from epicast.log.simulated import SimulatedDisk
from epicast.sim.campaign.faults import Fault, RegionFault, can_lose
from epicast.sim.log_disk import Snapshot
from epicast.sim.node import SimNode

if TYPE_CHECKING:
    from epicast.sim.campaign.world import World


class DiskFull(RegionFault, frozen=True, kw_only=True):
    def strike(self, world: World) -> None:
        disk = world.disk_of(self.node(world))
        disk.fill()
        world.at(self.until_ns, disk.free)


class NoDescriptors(RegionFault, frozen=True, kw_only=True):
    """The process has used up its descriptors: it can make no file, and so begin no epoch."""

    def strike(self, world: World) -> None:
        disk = world.disk_of(self.node(world))
        disk.refuse_files()
        world.at(self.until_ns, disk.free)


class Damage(RegionFault, frozen=True, kw_only=True):
    """The machine goes down, and comes back with one stream damaged."""

    choice: float
    """Which stream, and where: a number from 0 to 1 stands for the draw."""
    noticed: ClassVar[bool] = False
    """Whether the replica itself can tell."""

    def strike(self, world: World) -> None:
        node = self.node(world)
        if not node.alive or node.paused:
            return
        disk, rng = world.disk_of(node), Random(self.choice)
        able = self.streams(world, node)
        if not able:
            return
        stream = rng.choice(able)
        world.kill(node, self.until_ns)
        if self.harm(disk.files[stream], rng):
            world.damaged(node, [stream])
            if world.chains.is_chain(self.region) and world.owns(self.region, stream):
                world.chains.mark_unwell(node, unknowing=True)

    def streams(self, world: World, node: SimNode) -> list[int]:
        """On its files and numbered elsewhere, or by a chain in which another replica is well. Who
        is alone cannot know that it has lost the end of a stream it numbers itself, nor that it
        woke up in the past: no file says so. It would use numbers twice that others have seen.
        That is why there are chains of replicas."""
        if world.chains.is_chain(self.region):
            owned = None if world.chains.may_lose(self.region, node) else False
            return world.streams_on_files(self.region, owned=owned)
        if world.moves_concern(self.region):
            return []
        return world.streams_on_files(self.region, owned=None if self.noticed else False)

    def harm(self, files: SimulatedDisk, rng: Random) -> bool:
        """Whether anything was changed."""
        raise NotImplementedError


class FlipBit(Damage, frozen=True, kw_only=True):
    """In the midst of a stream, where it can be told from half a write at its end."""

    noticed: ClassVar[bool] = True

    def harm(self, files: SimulatedDisk, rng: Random) -> bool:
        return flip_bit(files, rng)


def flip_bit(files: SimulatedDisk, rng: Random) -> bool:
    """Whether there was one where that is noticed."""
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


class DamageRegion(Fault, frozen=True, kw_only=True):
    """The power goes in a region that is a chain, and when it comes back a bit has flipped in one
    replica, or in all but one."""

    region: str
    choice: float
    """Which replicas, streams and bits: a number from 0 to 1 stands for the draw."""
    all_but_one: bool

    def strike(self, world: World) -> None:
        nodes, rng = list(world.replicas(self.region)), Random(self.choice)
        rng.shuffle(nodes)
        intact = nodes[-1] if self.all_but_one else nodes[1]
        has_everything = world.chains.is_complete(self.region) and world.chains.has_all(
            self.region, intact
        )
        if not has_everything or any(node.paused for node in nodes):
            return
        for node in nodes:
            world.kill(node, self.until_ns)
        for node in nodes[:-1] if self.all_but_one else nodes[:1]:
            streams = world.streams_on_files(self.region, owned=None)
            stream = rng.choice(streams)
            if flip_bit(world.disk_of(node).files[stream], rng):
                world.damaged(node, [stream])
                world.chains.mark_unwell(node, unknowing=False)


class Truncate(Damage, frozen=True, kw_only=True):
    """A file has lost its end."""

    def harm(self, files: SimulatedDisk, rng: Random) -> bool:
        names = [name for name in files.names() if name.endswith(SUFFIX) and files.size(name)]
        if not names:
            return False
        name = rng.choice(names)
        files.cut_off(name, rng.randrange(files.size(name)))
        return True


class RollBack(RegionFault, frozen=True, kw_only=True):
    """A snapshot is taken, and some time later the machine starts from it."""

    restart_ns: int
    """When it goes down; it is up again at `until_ns`."""

    def strike(self, world: World) -> None:
        node = self.node(world)
        owned = None if world.chains.is_chain(self.region) else False  # why, `Damage` says
        streams = world.streams_on_files(self.region, owned=owned)
        if node.alive and streams:
            snapshot = world.disk_of(node).snapshot(streams)
            world.at(self.restart_ns, partial(self._restart, world, node, snapshot))

    def _restart(self, world: World, node: SimNode, snapshot: Snapshot) -> None:
        if node.alive and not node.paused and can_lose(world, self.region, node):
            world.kill(node, self.until_ns)
            world.disk_of(node).restore(snapshot)
            world.damaged(node, snapshot.files)
            if world.chains.is_chain(self.region):
                world.chains.mark_unwell(node, unknowing=True)
