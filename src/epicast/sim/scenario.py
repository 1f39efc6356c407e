"""Scenario files: a system, a workload and what goes wrong, in one TOML document.

`scenarios/` has examples; `docs/scenarios.md` lists every key. Everything is checked when a file is
read: an unknown key, a wrong unit or a node that does not exist is an error before anything starts.
"""

from __future__ import annotations

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
    load_document,
    without_unit,
)
from epicast.protocols.catalog import stack_factory
from epicast.protocols.cyclon import CyclonConfig
from epicast.protocols.flood import FloodConfig
from epicast.protocols.gossip import PushGossipConfig
from epicast.protocols.hyparview import HyParViewConfig
from epicast.sim.churn import Churn, ChurnEvent, parse_churn_trace
from epicast.sim.faults import AnyFault, CutLink, NodeFault
from epicast.sim.latency import (
    EPTO_MOMENTS_NS,
    EPTO_PERCENTILES_NS,
    ConstantLatency,
    Latency,
    MatrixLatency,
    PercentileLatency,
    UniformLatency,
    parse_matrix,
)

Positive = Annotated[int, Meta(ge=1)]
LayerName = Literal["hyparview", "cyclon", "flood", "gossip"]


class Section(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename=without_unit):
    """Keys lose the unit that field names end in: values carry their own."""


class ConstantDelay(Section, frozen=True, kw_only=True, tag_field="model", tag="constant"):
    delay_ns: Duration


class UniformDelay(Section, frozen=True, kw_only=True, tag_field="model", tag="uniform"):
    low_ns: Duration
    high_ns: Duration


class PercentileDelay(Section, frozen=True, kw_only=True, tag_field="model", tag="percentiles"):
    """`p5 = "15ms"` and so on; `mean` and `sd` go together."""

    points: dict[str, Duration]
    mean_ns: Duration | None = None
    sd_ns: Duration | None = None

    def __post_init__(self) -> None:
        for name in self.points:
            if not name.startswith("p") or not name[1:].replace(".", "", 1).isdigit():
                raise ConfigError(f"points: '{name}' is not a percentile such as 'p50'")
        if (self.mean_ns is None) != (self.sd_ns is None):
            raise ConfigError("mean and sd are given together or not at all")


class EptoDelay(Section, frozen=True, kw_only=True, tag_field="model", tag="epto"):
    """The wide-area distribution of EpTO's evaluation."""


class MatrixDelay(Section, frozen=True, kw_only=True, tag_field="model", tag="matrix"):
    """A file with a line per site, delays in milliseconds; node n is at site n modulo sites."""

    file: str


DelaySection = ConstantDelay | UniformDelay | PercentileDelay | EptoDelay | MatrixDelay


class BandwidthSection(Section, frozen=True, kw_only=True):
    up: Rate
    down: Rate
    queue: Annotated[Size, Meta(ge=1)] = 4 << 20


class ServiceSection(Section, frozen=True, kw_only=True):
    """Processing time of a node."""

    per_message_ns: Duration = 0
    per_kilobyte_ns: Duration = 0


class NetworkSection(Section, frozen=True, kw_only=True):
    latency: DelaySection = field(default_factory=lambda: ConstantDelay(delay_ns=1_000_000))
    loss: Fraction = 0.0
    duplication: Fraction = 0.0
    reordering: Fraction = 0.0
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
    duration_ns: Duration
    join_every_ns: Duration = 10_000_000
    """Between the first node and the second, and so on."""
    stack: list[LayerName]
    hyparview: HyParViewConfig = field(default_factory=HyParViewConfig)
    cyclon: CyclonConfig = field(default_factory=CyclonConfig)
    flood: FloodConfig = field(default_factory=FloodConfig)
    gossip: PushGossipConfig = field(default_factory=PushGossipConfig)
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
        stack_factory(self.stack, {})
        for index, workload in enumerate(self.workload):
            self._check_nodes(workload.publishers, f"workload[{index}].publishers")
        for index, fault in enumerate(self.faults):
            if isinstance(fault, CutLink):
                self._check_nodes(fault.between, f"faults[{index}].between")
            elif isinstance(fault, NodeFault):
                self._check_nodes(fault.nodes, f"faults[{index}].nodes")

    def _check_nodes(self, nodes: list[int] | tuple[int, int], key: str) -> None:
        for node in nodes:
            if not 1 <= node <= self.nodes:
                raise ConfigError(f"{key}: node {node} is not one of 1..{self.nodes}")

    @property
    def configs(self) -> dict[str, Config]:
        return {name: getattr(self, name) for name in self.stack}


class LoadedScenario(Struct, frozen=True):
    """A scenario with the files it names."""

    scenario: Scenario
    source: str
    """The command that runs it, without the seed."""
    matrix: str | None = None
    trace: list[ChurnEvent] = []

    def latency(self, seed: int) -> Latency:
        section = self.scenario.network.latency
        match section:
            case ConstantDelay():
                return ConstantLatency(section.delay_ns)
            case UniformDelay():
                return UniformLatency(section.low_ns, section.high_ns, seed)
            case EptoDelay():
                return PercentileLatency(EPTO_PERCENTILES_NS, seed, EPTO_MOMENTS_NS)
            case PercentileDelay():
                points = {float(name[1:]): delay for name, delay in section.points.items()}
                if section.mean_ns is None or section.sd_ns is None:
                    return PercentileLatency(points, seed)
                return PercentileLatency(points, seed, (section.mean_ns, section.sd_ns))
            case MatrixDelay():
                return MatrixLatency(parse_matrix(self.matrix or "", section.file))


def load_scenario(path: Path, read: Callable[[Path], str] | None = None) -> LoadedScenario:
    """Read a scenario file and the files it names, relative to it."""
    read = read or _read
    scenario = load_document(read(path), str(path), Scenario)
    matrix = None
    if isinstance(scenario.network.latency, MatrixDelay):
        matrix = read(path.parent / scenario.network.latency.file)
    trace: list[ChurnEvent] = []
    if scenario.churn_trace is not None:
        trace_path = path.parent / scenario.churn_trace
        trace = parse_churn_trace(read(trace_path), str(trace_path))
    loaded = LoadedScenario(scenario, f"simulate {path}", matrix, trace)
    try:
        loaded.latency(0)
    except ConfigError as error:
        raise ConfigError(f"{path}: network.latency: {error}") from None
    return loaded


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
