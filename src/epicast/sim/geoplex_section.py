"""The table `[simulate]` with what goes wrong: faults name regions where scenarios number nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated

from msgspec import Meta, Struct, field

from epicast.core import ConfigError
from epicast.deployment import Duration, SimulateSection, without_unit
from epicast.deployment.naming import not_among
from epicast.deployment.problems import Problem


class RegionFault(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, tag_field="kind",
                  tag=str.lower, rename=without_unit):  # fmt: skip
    at_ns: Duration

    def regions(self) -> tuple[str, ...]:
        """Those it names."""
        return ()


class CrashRegion(RegionFault, kw_only=True, frozen=True, rename=without_unit, tag="crash"):
    """The region's proxy stops at once, or some of its agents do; they come back later."""

    region: str
    agents: Annotated[int, Meta(ge=1)] | None = None
    """So many of its agents instead of its proxy."""
    restart_after_ns: Duration
    lose_disk: bool = False
    silently: bool = False

    def __post_init__(self) -> None:
        if self.lose_disk and self.agents is not None:
            raise ConfigError("agents have no disk to lose")

    def regions(self) -> tuple[str, ...]:
        return (self.region,)


class PauseRegion(RegionFault, kw_only=True, frozen=True, rename=without_unit, tag="pause"):
    region: str
    agents: Annotated[int, Meta(ge=1)] | None = None
    for_ns: Duration

    def regions(self) -> tuple[str, ...]:
        return (self.region,)


class FullDisk(RegionFault, kw_only=True, frozen=True, rename=without_unit, tag="disk_full"):
    """The disk of the region's proxy takes nothing for a while."""

    region: str
    for_ns: Duration

    def regions(self) -> tuple[str, ...]:
        return (self.region,)


class CutRegions(RegionFault, kw_only=True, frozen=True, rename=without_unit, tag="cut"):
    """Nothing passes between two regions, or one way only."""

    between: tuple[str, str]
    for_ns: Duration
    one_way: bool = False

    def __post_init__(self) -> None:
        if self.between[0] == self.between[1]:
            raise ConfigError(f"between {self.between[0]!r} and itself there is nothing to cut")

    def regions(self) -> tuple[str, ...]:
        return self.between


class IsolateRegion(RegionFault, kw_only=True, frozen=True, rename=without_unit, tag="isolate"):
    """Nothing passes between a region and any other."""

    region: str
    for_ns: Duration

    def regions(self) -> tuple[str, ...]:
        return (self.region,)


AnyRegionFault = CrashRegion | PauseRegion | FullDisk | CutRegions | IsolateRegion


class GeoplexSimulation(SimulateSection, frozen=True, kw_only=True):
    faults: list[AnyRegionFault] = field(default_factory=list)

    def problems(self, regions: Collection[str], streams: Collection[str]) -> Iterator[Problem]:
        yield from super().problems(regions, streams)
        for index, fault in enumerate(self.faults):
            for name in fault.regions():
                if name not in regions:
                    yield Problem(("faults", index), not_among("region", name, regions))
            if fault.at_ns >= self.duration_ns:
                yield Problem(("faults", index, "at"), "it comes after publishing has ended")
