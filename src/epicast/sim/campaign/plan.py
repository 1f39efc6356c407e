"""One run as data: a geoplex, who is in it, what they do, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, structs

from epicast.deployment import Geoplex, parse_geoplex
from epicast.protocols.sprinkler import AgentConfig, ClientConfig, ProxyConfig
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.campaign.faults import Fault
from epicast.sim.network import Conditions

MS = 1_000_000
SECOND = 1_000_000_000


class PlannedRegion(Struct, frozen=True, kw_only=True):
    name: str
    on_files: bool
    """Otherwise everything is gone with the process."""
    replicas: int = 1
    """More than one: they are a chain."""


class PlannedLink(Struct, frozen=True, kw_only=True):
    source: str
    target: str
    latency_ms: int
    loss: float = 0.0


class PlannedStream(Struct, frozen=True, kw_only=True):
    name: str
    owner: str
    ack: str
    latest_per_key: bool = False
    last_n: int | None = None
    max_age_ms: int | None = None
    retain_bytes: int | None = None
    """Less than a file may say, so that it is not among its lines."""

    def lines(self) -> Iterator[str]:
        yield f"[streams.{self.name}]"
        yield f'owner = "{self.owner}"'
        yield f'ack = "{self.ack}"'
        if self.ack == "interval":
            yield 'sync_interval = "300ms"'
        if self.latest_per_key:
            yield "latest_per_key = true"
        if self.last_n is not None:
            yield f"last_n = {self.last_n}"
        if self.max_age_ms is not None:
            yield f'max_age = "{self.max_age_ms}ms"'


class Subscribed(Struct, frozen=True):
    stream: str
    window_bytes: int


class Publishing(Struct, frozen=True, kw_only=True):
    streams: tuple[str, ...]
    batch: int
    every_ns: int
    from_ns: int
    level: str
    keys: int
    """Different ones; 0: none."""
    size_bytes: int
    gc_share: float
    """Of publications: GC events."""
    repeats: bool
    """What had no answer when its node went down is published again, under the same numbers."""
    burst: int = 1
    """Publications at a time."""
    unsound_share: float = 0.0
    """Share of publications that the owner must refuse."""
    forbidden: tuple[tuple[str, int, int], ...] = ()
    """Streams that it has no right to publish to, and from when until when."""


class PlannedEdge(Struct, frozen=True, kw_only=True):
    """An agent, a sidecar or a plain client, and the application on it."""

    name: str
    kind: str
    region: str
    joins_ns: int = 0
    at: str = ""
    """The sidecar it is attached to, instead of the proxy."""
    subscribed: tuple[Subscribed, ...] = ()
    delay_ns: int = 0
    """What the application takes for a batch."""
    stalls: tuple[tuple[int, int], ...] = ()
    """From when until when it takes nothing."""
    publishing: Publishing | None = None


class Plan(Struct, frozen=True, kw_only=True):
    seed: int
    regions: tuple[PlannedRegion, ...]
    links: tuple[PlannedLink, ...]
    streams: tuple[PlannedStream, ...]
    edges: tuple[PlannedEdge, ...]
    proxy: ProxyConfig
    agent: AgentConfig
    client: ClientConfig
    conditions: Conditions
    bandwidth: Bandwidth | None
    sync_ns: int
    segment_bytes: int
    check_addresses: bool
    faults: tuple[Fault, ...]
    trouble_ends_ns: int
    publishing_ends_ns: int
    converges_within_ns: int
    """After publishing has ended."""

    def geoplex(self) -> Geoplex:
        lines = [f'name = "campaign-{self.seed}"']
        for at, region in enumerate(self.regions):
            hosts = [f"h{at}-{number}:1" for number in range(region.replicas)]
            many = f"replicas = {hosts}" if region.replicas > 1 else f'proxy = "h{at}:1"'
            lines += [f"[regions.{region.name}]", many]
            if region.on_files:
                lines.append(f'data = "d/{region.name}"')
        for link in self.links:
            lines += ["[[links]]", f'from = "{link.source}"', f'to = "{link.target}"']
            lines += [f'latency = "{link.latency_ms}ms"', f"loss = {link.loss}"]
        for stream in self.streams:
            lines += stream.lines()
        return parse_geoplex("\n".join(lines), f"campaign seed {self.seed}")

    def without(self, numbers: set[int]) -> Plan:
        """The same run with some of its faults left out, the others unchanged."""
        kept = tuple(f for at, f in enumerate(self.faults, 1) if at not in numbers)
        return structs.replace(self, faults=kept)

    def describe(self) -> list[str]:
        """In words, for whoever looks for what went wrong."""
        lines = [
            f"{len(self.regions)} regions, {len(self.edges)} edges, "
            f"{len(self.faults)} faults; disks take {self.sync_ns / MS:g} ms"
        ]
        for region in self.regions:
            kept = "on files" if region.on_files else "in memory"
            lines.append(f"{region.name}: {region.replicas} replicas, {kept}")
        for stream in self.streams:
            retained = [] if stream.retain_bytes is None else [f"retains {stream.retain_bytes} B"]
            lines.append(", ".join([*stream.lines(), *retained]))
        for edge in self.edges:
            where = edge.at or edge.region
            told = [f"{each.stream} ({each.window_bytes} B)" for each in edge.subscribed]
            said = edge.publishing.streams if edge.publishing is not None else ()
            lines.append(
                f"{edge.name}: {edge.kind} at {where}; hears {', '.join(told) or 'nothing'}; "
                f"says {', '.join(said) or 'nothing'}"
            )
        for number, fault in enumerate(self.faults, 1):
            lines.append(f"fault {number}: {fault.describe()}")
        return lines
