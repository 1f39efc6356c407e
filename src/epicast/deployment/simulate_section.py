"""The table `[simulate]` of a `geoplex.toml`: what to try out in the simulator.

Faults are the simulator's own business: it extends `SimulateSection` by them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated

from msgspec import Meta, field

from epicast.core.errors import ConfigError
from epicast.deployment.naming import not_among
from epicast.deployment.problems import Problem
from epicast.deployment.sections import Section
from epicast.deployment.units import (
    MILLISECOND,
    SECOND,
    Duration,
    Frequency,
    Size,
    format_duration,
    format_size,
)

AgentCount = Annotated[int, Meta(ge=0, le=1_000_000)]
_MAX_BATCH_BYTES = 1 << 30


class StreamWorkload(Section, frozen=True, kw_only=True):
    """Events of one stream at an even rate."""

    stream: str
    region: str | None = None
    """Where it is published; none: where the stream is owned."""
    from_ns: Duration = 0
    for_ns: Annotated[Duration, Meta(gt=0)] | None = None
    rate_per_second: Annotated[Frequency, Meta(gt=0)] = 1000.0
    batch: Annotated[int, Meta(ge=1, le=100_000)] = 100
    size_bytes: Size = 100
    keys: Annotated[int, Meta(ge=0, le=1 << 32)] = 1000
    """Different keys; 0: events without a key."""
    zipf: Annotated[float, Meta(ge=0, le=10)] = 1.0
    """Skew of the keys; 0: all alike."""

    def __post_init__(self) -> None:
        if self.batch * self.size_bytes > _MAX_BATCH_BYTES:
            most = format_size(_MAX_BATCH_BYTES)
            raise ConfigError(f"{self.batch} events of this size are more than {most} in a batch")


class SimulateSection(Section, frozen=True, kw_only=True):
    duration_ns: Annotated[Duration, Meta(gt=0)] = 30 * SECOND
    """Publishing ends here."""
    drain_ns: Duration = 10 * SECOND
    """What has not arrived so long after the end counts as lost."""
    seed: int = 1
    agents: AgentCount | dict[str, AgentCount] = 10
    """In each region, or by region (those not named have none)."""
    join_every_ns: Duration = 10 * MILLISECOND
    """Between two agents of a region at the start."""
    latency_ns: Annotated[Duration, Meta(gt=0)] = MILLISECOND
    """Between two nodes of a region, one way."""
    workload: list[StreamWorkload] = field(default_factory=list)
    """None: every stream gets the defaults."""

    def agents_in(self, region: str) -> int:
        return self.agents if isinstance(self.agents, int) else self.agents.get(region, 0)

    def workloads(self, streams: Collection[str]) -> list[StreamWorkload]:
        return list(self.workload) or [StreamWorkload(stream=name) for name in streams]

    def problems(self, regions: Collection[str], streams: Collection[str]) -> Iterator[Problem]:
        """What does not fit the rest of the file."""
        if isinstance(self.agents, dict):
            for name in self.agents:
                if name not in regions:
                    yield Problem(("agents", name), not_among("region", name, regions))
        for index, workload in enumerate(self.workload):
            path = ("workload", index)
            if workload.stream not in streams:
                message = not_among("stream", workload.stream, streams)
                yield Problem((*path, "stream"), message)
            if workload.region is not None and workload.region not in regions:
                message = not_among("region", workload.region, regions)
                yield Problem((*path, "region"), message)
            if workload.from_ns >= self.duration_ns:
                begin, end = format_duration(workload.from_ns), format_duration(self.duration_ns)
                message = f"it begins at {begin}, but publishing ends after {end}"
                yield Problem((*path, "from"), message)
