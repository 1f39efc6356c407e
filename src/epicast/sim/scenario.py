"""Scenario files: a system, a workload and what goes wrong, in one TOML document.

`scenarios/` has examples; `docs/scenarios.md` lists every key. Everything is checked when a file is
read: an unknown key, a wrong unit or a node that does not exist is an error before anything starts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from epicast.core import Config, ConfigError
from epicast.deployment import (
    Bandwidth as Rate,
)
from epicast.deployment import (
    Duration,
    Fraction,
    Size,
    format_duration,
    format_size,
    load_document,
    without_unit,
)
from epicast.protocols.catalog import DISSEMINATION, LAYERS, stack_factory
from epicast.protocols.cyclon import CyclonConfig
from epicast.protocols.epto import EptoConfig
from epicast.protocols.flood import FloodConfig
from epicast.protocols.gossip import PushGossipConfig
from epicast.protocols.hyparview import HyParViewConfig
from epicast.protocols.lpbcast import LpbcastConfig
from epicast.protocols.pbcast import PbcastConfig
from epicast.protocols.reinforcement import ReinforcementConfig
from epicast.protocols.scamp import ScampConfig
from epicast.sim.churn import Churn, ChurnEvent, parse_churn_trace
from epicast.sim.faults import AnyFault, Below, CutLink, NodeFault
from epicast.sim.latency import (
    ConstantLatency,
    Latency,
    MatrixLatency,
    PercentileLatency,
    UniformLatency,
    epto_latency,
    parse_matrix,
)

Positive = Annotated[int, Meta(ge=1)]
SomeRate = Annotated[Rate, Meta(ge=1)]
_PERCENTILE = re.compile(r"p[0-9]{1,3}(\.[0-9]{1,6})?")
_MAX_BATCH_BYTES = 1 << 30
LayerName = Literal[
    "hyparview", "cyclon", "lpbcast", "scamp", "reinforcement",
    "flood", "gossip", "pbcast", "epto",
]  # fmt: skip


class Section(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename=without_unit):
    """Keys lose the unit that field names end in: values carry their own."""


class ConstantDelay(Section, frozen=True, kw_only=True, tag_field="model", tag="constant"):
    delay_ns: Duration

    def model(self, seed: int) -> Latency:
        return ConstantLatency(self.delay_ns)


class UniformDelay(Section, frozen=True, kw_only=True, tag_field="model", tag="uniform"):
    low_ns: Duration
    high_ns: Duration

    def __post_init__(self) -> None:
        self.model(0)

    def model(self, seed: int) -> Latency:
        return UniformLatency(self.low_ns, self.high_ns, seed)


class PercentileDelay(Section, frozen=True, kw_only=True, tag_field="model", tag="percentiles"):
    """`p5 = "15ms"` and so on; `mean` and `sd` go together."""

    points: dict[str, Duration]
    mean_ns: Duration | None = None
    sd_ns: Duration | None = None

    def __post_init__(self) -> None:
        if (self.mean_ns is None) != (self.sd_ns is None):
            raise ConfigError("mean and sd are given together or not at all")
        self.model(0)

    def model(self, seed: int) -> Latency:
        points: dict[float, int] = {}
        for name, delay in self.points.items():
            if not _PERCENTILE.fullmatch(name) or float(name[1:]) in points:
                raise ConfigError(f"points: '{name}' is not another percentile such as 'p50'")
            points[float(name[1:])] = delay
        if self.mean_ns is None or self.sd_ns is None:
            return PercentileLatency(points, seed)
        return PercentileLatency(points, seed, (self.mean_ns, self.sd_ns))


class EptoDelay(Section, frozen=True, kw_only=True, tag_field="model", tag="epto"):
    """The wide-area distribution of EpTO's evaluation."""

    def model(self, seed: int) -> Latency:
        return epto_latency(seed)


class MatrixDelay(Section, frozen=True, kw_only=True, tag_field="model", tag="matrix"):
    """A file with a line per site, delays in milliseconds; node n is at site n modulo sites."""

    file: str


DelaySection = ConstantDelay | UniformDelay | PercentileDelay | EptoDelay | MatrixDelay


class BandwidthSection(Section, frozen=True, kw_only=True):
    up: SomeRate
    down: SomeRate
    queue: Annotated[Size, Meta(ge=1)] = 4 << 20


class ServiceSection(Section, frozen=True, kw_only=True):
    """Processing time of a node."""

    per_message_ns: Duration = 0
    per_kilobyte_ns: Duration = 0


class NetworkSection(Section, frozen=True, kw_only=True):
    latency: DelaySection = field(default_factory=lambda: ConstantDelay(delay_ns=1_000_000))
    loss: Below = 0.0
    duplication: Below = 0.0
    reordering: Below = 0.0
    bandwidth: BandwidthSection | None = None


class Workload(Section, frozen=True, kw_only=True):
    """`count` batches of `batch` events, `every` so often, from one node after the other."""

    from_ns: Duration = 0
    count: Positive = 1
    every_ns: Duration = 0
    batch: Annotated[int, Meta(ge=1, le=100_000)] = 1
    size_bytes: Size = 100
    publishers: list[int] = []
    """Nodes that publish, in turn; empty: any node that is up, drawn from the seed."""
    expect_delivery: Fraction | None = None
    """The least delivery of this workload's own events, beside that of the whole scenario."""

    def __post_init__(self) -> None:
        if self.batch * self.size_bytes > _MAX_BATCH_BYTES:
            most = format_size(_MAX_BATCH_BYTES)
            raise ConfigError(f"{self.batch} events of this size are more than {most} in a batch")

    @property
    def last_ns(self) -> int:
        """When the last batch is published."""
        return self.from_ns + (self.count - 1) * self.every_ns


class ExpectSection(Section, frozen=True, kw_only=True):
    """What must be true at the end."""

    delivery: Fraction = 1.0
    """Share of (event, live node that was up when it was published) pairs delivered."""
    connected: bool = True


class Scenario(Section, frozen=True, kw_only=True):
    name: str
    description: str = ""
    seed: int = 1
    nodes: Annotated[int, Meta(ge=1, le=1_000_000)]
    duration_ns: Annotated[Duration, Meta(gt=0)]
    join_every_ns: Duration = 10_000_000
    """Between the first node and the second, and so on."""
    stack: list[LayerName]
    hyparview: HyParViewConfig | None = None
    cyclon: CyclonConfig | None = None
    lpbcast: LpbcastConfig | None = None
    scamp: ScampConfig | None = None
    reinforcement: ReinforcementConfig | None = None
    flood: FloodConfig | None = None
    gossip: PushGossipConfig | None = None
    pbcast: PbcastConfig | None = None
    epto: EptoConfig | None = None
    network: NetworkSection = field(default_factory=NetworkSection)
    service: ServiceSection | None = None
    disk_sync_ns: Duration | None = None
    """Gives each node a disk that needs this long to sync."""
    workload: list[Workload] = []
    faults: list[AnyFault] = []
    churn: Churn | None = None
    churn_trace: str | None = None
    """A file of joins, leaves and crashes."""
    expect: ExpectSection = field(default_factory=ExpectSection)

    def __post_init__(self) -> None:
        stack_factory(self.stack, self.configs)
        self._check_layers()
        self._check_times()
        for index, workload in enumerate(self.workload):
            self._check_nodes(workload.publishers, f"workload[{index}].publishers")
        for index, fault in enumerate(self.faults):
            if isinstance(fault, CutLink):
                self._check_nodes(fault.between, f"faults[{index}].between")
            elif isinstance(fault, NodeFault):
                self._check_nodes(fault.nodes, f"faults[{index}].nodes")
        if self.churn is not None:
            self._check_nodes(self.churn.spare, "churn.spare")

    def _check_layers(self) -> None:
        for name in LAYERS:
            if getattr(self, name) is not None and name not in self.stack:
                raise ConfigError(f"{name}: has no effect, it is not in the stack {self.stack}")
        if self.workload and not any(name in DISSEMINATION for name in self.stack):
            known = " or ".join(DISSEMINATION)
            raise ConfigError(f"workload: nothing in the stack {self.stack} publishes; add {known}")

    def _check_times(self) -> None:
        """What would come after the end would silently not come at all."""
        plans = [(f"nodes: the last of {self.nodes} joins", (self.nodes - 1) * self.join_every_ns)]
        for index, workload in enumerate(self.workload):
            plans.append((f"workload[{index}]: the last batch comes", workload.last_ns))
        for index, fault in enumerate(self.faults):
            plans.append((f"faults[{index}].at: it comes", fault.at_ns))
        if self.churn is not None:
            plans.append(("churn.from: it begins", self.churn.from_ns))
        for what, at_ns in plans:
            if at_ns >= self.duration_ns:
                at, end = format_duration(at_ns), format_duration(self.duration_ns)
                raise ConfigError(f"{what} at {at}, but the run ends after {end}")

    def _check_nodes(self, nodes: list[int] | tuple[int, int], key: str) -> None:
        for node in nodes:
            if not 1 <= node <= self.nodes:
                raise ConfigError(f"{key}: node {node} is not one of 1..{self.nodes}")

    @property
    def configs(self) -> dict[str, Config]:
        """Of the layers that have one."""
        given = {name: getattr(self, name) for name in self.stack}
        return {name: config for name, config in given.items() if config is not None}


class LoadedScenario(Struct, frozen=True):
    """A scenario with the files it names."""

    scenario: Scenario
    source: str
    """The command that runs it, without the seed."""
    matrix: str | None = None
    trace: list[ChurnEvent] = []

    def latency(self, seed: int) -> Latency:
        section = self.scenario.network.latency
        if isinstance(section, MatrixDelay):
            return MatrixLatency(parse_matrix(self.matrix or "", section.file))
        return section.model(seed)


def load_scenario(path: Path, read: Callable[[Path], str] | None = None) -> LoadedScenario:
    """Read a scenario file and the files it names, relative to it."""
    read = read or _read
    scenario = load_document(read(path), str(path), Scenario)
    matrix, trace, section = None, [], scenario.network.latency
    if isinstance(section, MatrixDelay):
        file = path.parent / section.file
        try:
            matrix = read(file)
            parse_matrix(matrix, str(file))
        except ConfigError as error:
            raise ConfigError(f"{path}: network.latency.file: {error}") from None
    if scenario.churn_trace is not None:
        file = path.parent / scenario.churn_trace
        try:
            trace = parse_churn_trace(read(file), str(file), scenario.nodes)
        except ConfigError as error:
            raise ConfigError(f"{path}: churn_trace: {error}") from None
    return LoadedScenario(scenario, f"simulate {shlex.quote(str(path))}", matrix, trace)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: cannot be read: not UTF-8 text") from None
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
