"""Things that go wrong at a given time, as they are written in scenario files.

Each fault is a struct; `Injector.schedule` turns it into calls on a running simulation. Which nodes
are hit is drawn, from the seed, when the fault strikes, so that only nodes alive then are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from epicast.core import NEVER, ConfigError, NodeId, Peer
from epicast.core.sampling import choose, sample
from epicast.deployment import Duration, Fraction, without_unit
from epicast.sim.clock import DriftingClock
from epicast.sim.node import SimNode
from epicast.sim.simulation import Simulation

_LARGE = 100
"""Nodes from which on contacts are found by trial."""
_TRIES = 20


class Fault(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, tag_field="kind",
            tag=str.lower, rename=without_unit):  # fmt: skip
    at_ns: Duration


class NodeFault(Fault, kw_only=True, frozen=True, rename=without_unit, tag=str.lower):
    """Hits the nodes listed, or a number or share of those alive."""

    nodes: list[int] = []
    count: Annotated[int, Meta(ge=1)] | None = None
    share: Fraction | None = None

    def __post_init__(self) -> None:
        if sum((bool(self.nodes), self.count is not None, self.share is not None)) != 1:
            raise ConfigError("give exactly one of nodes, count and share")

    def choose(self, simulation: Simulation, rng: Random) -> list[SimNode]:
        if self.nodes:
            return [simulation.nodes[node] for node in self.nodes if node in simulation.nodes]
        alive = simulation.live_nodes()
        wanted = self.count if self.count is not None else round((self.share or 0) * len(alive))
        return sample(rng, alive, wanted)


Below = Annotated[Fraction, Meta(lt=1)]
"""A share of packets: if it were all of them, it would be a cut."""


class Crash(NodeFault, kw_only=True, frozen=True, rename=without_unit, tag="crash"):
    """Stop at once; with `restart_after`, come back."""

    restart_after_ns: Duration | None = None
    lose_disk: bool = False
    silently: bool = False
    """No connection reset: the machine is gone, not just the process."""


class Leave(NodeFault, kw_only=True, frozen=True, rename=without_unit, tag="leave"):
    """Stop in good order."""


class Pause(NodeFault, kw_only=True, frozen=True, rename=without_unit, tag="pause"):
    for_ns: Duration


class Drift(NodeFault, kw_only=True, frozen=True, rename=without_unit, tag="drift"):
    """Clocks that gain or lose up to `rate` (0.01: 10 ms a second), drawn per node."""

    rate: Annotated[float, Meta(gt=0, lt=0.5)]
    for_ns: Duration | None = None


class DiskFull(NodeFault, kw_only=True, frozen=True, rename=without_unit, tag="disk_full"):
    for_ns: Duration


class CutLink(Fault, kw_only=True, frozen=True, rename=without_unit, tag="cut"):
    """Stop packets between two nodes, or one way only."""

    for_ns: Duration
    between: tuple[int, int]
    one_way: bool = False


class Partition(Fault, kw_only=True, frozen=True, rename=without_unit, tag="partition"):
    """Split the nodes at random into this share and the rest, which newcomers belong to."""

    for_ns: Duration
    share: Fraction = 0.5


class Weather(Fault, kw_only=True, frozen=True, rename=without_unit, tag="weather"):
    """Bad conditions on all paths for a while."""

    for_ns: Duration
    loss: Below = 0.0
    duplication: Below = 0.0
    reordering: Below = 0.0


AnyFault = Crash | Leave | Pause | Drift | DiskFull | CutLink | Partition | Weather


class Injector:
    """Carries out faults; also the hand by which nodes come back."""

    def __init__(self, simulation: Simulation, rng: Random, max_contacts: int = 3) -> None:
        self._sim = simulation
        self._rng = rng
        self._max_contacts = max_contacts
        self._normal = simulation.network.conditions
        self._weather: list[Weather] = []
        self._lasting: dict[tuple[str, NodeId, int], int] = {}
        """Until when a node suffers of what: faults may overlap."""

    def schedule(self, faults: Sequence[AnyFault]) -> None:
        for fault in faults:
            self._sim.scheduler.at(fault.at_ns, self._strike, fault)

    def contacts(self, newcomer: NodeId) -> list[Peer]:
        """A few live nodes to join through."""
        nodes, wanted = self._sim.roster, self._max_contacts
        found: list[SimNode] = []
        if len(nodes) > _LARGE:  # looking at all of them for each that joins would take for ever
            for _ in range(_TRIES * wanted):
                node = choose(self._rng, nodes)
                if node.alive and node.id != newcomer and node not in found:
                    found.append(node)
                if len(found) == wanted:
                    break
        if not found:
            alive = [node for node in self._sim.live_nodes() if node.id != newcomer]
            found = sample(self._rng, alive, wanted)
        return [node.peer for node in found]

    def _strike(self, fault: AnyFault, _: Any) -> None:
        sim = self._sim
        match fault:
            case Crash():
                for node in fault.choose(sim, self._rng):
                    if node.alive and fault.restart_after_ns is not None:
                        sim.scheduler.at(sim.now + fault.restart_after_ns, self.restart, node)
                    sim.crash(node, lose_disk=fault.lose_disk, silently=fault.silently)
            case Leave():
                for node in fault.choose(sim, self._rng):
                    sim.stop(node)
            case Pause():
                for node in fault.choose(sim, self._rng):
                    if node.alive:
                        sim.pause(node)
                        self._end_after(fault.for_ns, "pause", node, self._resume)
            case Drift():
                self._drift(fault)
            case DiskFull():
                for node in fault.choose(sim, self._rng):
                    if node.disk is not None:
                        node.disk.fill()
                        self._end_after(fault.for_ns, "disk full", node, _free_disk)
            case CutLink():
                a, b = fault.between
                paths = {(a, b)} if fault.one_way else {(a, b), (b, a)}
                self._cut(lambda source, target: (source, target) in paths, fault.for_ns)
            case Partition():
                nodes = list(sim.nodes)
                island = set(sample(self._rng, nodes, round(fault.share * len(nodes))))
                self._cut(lambda source, target: (source in island) != (target in island),
                          fault.for_ns)  # fmt: skip
            case Weather():
                self._begin_weather(fault)
        sim.record_fault(type(fault).__name__.lower())

    def restart(self, node: SimNode, _: Any = None) -> None:
        if not node.alive:
            self._sim.start(node, self.contacts(node.id))

    def _drift(self, fault: Drift) -> None:
        sim = self._sim
        for node in fault.choose(sim, self._rng):
            if not node.alive:
                continue
            rate = fault.rate * (2 * self._rng.random() - 1)
            local = sim.now if node.clock is None else node.clock.local(sim.now)
            sim.set_clock(node, DriftingClock(rate, sim.now, local - sim.now))
            if fault.for_ns is not None:
                self._end_after(fault.for_ns, "drift", node, self._steady_clock)

    def _end_after(
        self, for_ns: int, what: str, node: SimNode, end: Callable[[SimNode], None]
    ) -> None:
        """Have `end` called when no fault of this kind holds the node any more."""
        # A pause ends with the process; disks and clocks outlive it.
        key = (what, node.id, node.incarnation if what == "pause" else 0)
        over = self._sim.now + for_ns
        self._lasting[key] = max(over, self._lasting.get(key, over))

        def end_unless_longer(_: Any, __: Any) -> None:
            if self._lasting.get(key, NEVER) <= self._sim.now:
                del self._lasting[key]
                if key[2] in (0, node.incarnation):
                    end(node)

        self._sim.scheduler.at(over, end_unless_longer)

    def _resume(self, node: SimNode) -> None:
        self._sim.resume(node)

    def _steady_clock(self, node: SimNode) -> None:
        """Stop drifting; time gained or lost stays so, clocks do not jump."""
        if node.clock is not None:
            now = self._sim.now
            self._sim.set_clock(node, DriftingClock(0.0, now, node.clock.local(now) - now))

    def _cut(self, cut: Any, for_ns: int) -> None:
        self._sim.network.cut(cut)
        self._sim.scheduler.at(self._sim.now + for_ns, _mend, self._sim, cut)

    def _begin_weather(self, weather: Weather) -> None:
        self._weather.append(weather)
        self._apply_weather()
        self._sim.scheduler.at(self._sim.now + weather.for_ns, self._end_weather, weather)

    def _end_weather(self, weather: Weather, _: Any) -> None:
        self._weather.remove(weather)
        self._apply_weather()

    def _apply_weather(self) -> None:
        """The scenario's own conditions, or the worst of what is in force beside them."""
        normal = self._normal
        worst = {
            name: max(getattr(each, name) for each in (normal, *self._weather))
            for name in ("loss", "duplication", "reordering")
        }
        self._sim.network.set_conditions(structs.replace(normal, **worst))


def _free_disk(node: SimNode) -> None:
    assert node.disk is not None
    node.disk.free()


def _mend(simulation: Simulation, cut: Any) -> None:
    simulation.network.mend(cut)
    simulation.record_fault("mended")
