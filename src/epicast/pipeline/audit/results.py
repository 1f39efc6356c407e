"""What an audit found."""

from __future__ import annotations

from msgspec import Struct

from epicast.pipeline.audit.case import TIME_SLOTS
from epicast.pipeline.audit.staleness import BUCKETS, percentile, upper_end
from epicast.pipeline.audit.tallies import Counts, Tally, unsparse

VIOLATIONS = (
    "lost", "duplicated", "out_of_order", "forged", "unmatched", "acked_but_lost", "conflicting",
    "clock",
)  # fmt: skip


class Staleness(Struct, frozen=True):
    """How long after the owner stored them events were handed out, in nanoseconds."""

    events: int
    p50_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int


class Line(Struct, kw_only=True):
    """One stream, region, subscriber or publisher."""

    name: str
    stream: str = ""
    region: str = ""
    counts: Counts
    staleness: Staleness
    buckets: list[tuple[int, int]]
    """Upper end of the age, in nanoseconds, and events; only what is not 0."""
    slots: list[int]
    """Events handed out over time."""


class TruncatedLog(Struct, frozen=True):
    log: str
    reason: str
    covered: bool = False
    """Whether what it lacks is in other logs of the same owner."""


class Finding(Struct, frozen=True):
    """One place where something is wrong: a few of each kind are named."""

    what: str
    who: str
    stream: str
    epoch: int
    first: int
    last: int


class AuditResult(Struct, kw_only=True):
    directory: str
    logs: int
    rows: int
    """Of all logs."""
    events: int
    """That owners logged."""
    totals: Line
    streams: list[Line]
    regions: list[Line]
    subscribers: list[Line]
    publishers: list[Line]
    truncated: list[TruncatedLog]
    ownerless: list[str]
    """Streams that were used, and of which no owner's log is there."""
    accepts_truncated: bool
    findings: list[Finding]
    first_time_ns: int
    slot_ns: int
    seconds: float = 0.0

    @property
    def violations(self) -> dict[str, int]:
        """What was found of all that must not be."""
        found = {name: getattr(self.totals.counts, name) for name in VIOLATIONS}
        return {name: count for name, count in found.items() if count}

    @property
    def is_complete(self) -> bool:
        """Whether all evidence is there that an audit needs."""
        missing = any(not log.covered for log in self.truncated)
        return not missing and not self.ownerless and not self.totals.counts.unjudged

    @property
    def holds(self) -> bool:
        return not self.violations and (self.is_complete or self.accepts_truncated)


def line(name: str, tally: Tally, *, stream: str = "", region: str = "") -> Line:
    buckets = unsparse(tally.buckets, BUCKETS)
    oldest = tally.oldest_ns
    shares = {"p50_ns": 0.5, "p99_ns": 0.99, "p999_ns": 0.999}
    staleness = Staleness(
        events=int(buckets.sum()), max_ns=oldest,
        **{key: percentile(buckets, share, oldest) for key, share in shares.items()},
    )  # fmt: skip
    filled = buckets.nonzero()[0].tolist()
    return Line(
        name=name, stream=stream, region=region, counts=tally.counts, staleness=staleness,
        buckets=[(upper_end(bucket), int(buckets[bucket])) for bucket in filled],
        slots=unsparse(tally.slots, TIME_SLOTS).tolist(),
    )  # fmt: skip
