"""What a generated workload is: a few numbers, from which every event of it follows.

Updates and insertions form one Poisson process in seconds. An update names the key at a rank drawn
from a Zipf distribution over all keys there are, or from a Zeta distribution over infinitely many;
an insertion puts a new key at such a rank. Temporary keys form a process of their own: each is
inserted, lives for an exponential time and is deleted, and is not otherwise touched.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from epicast.pipeline.workloads.errors import WorkloadError

NS_PER_S = 1_000_000_000
LIFETIME_CUT = 20
"""Lifetimes end at so many means: a chunk then need not look back for ever. One in 10^8 would be
longer."""
MOST_CHUNKS = 1 << 29
LARGEST_SIZE = 16 << 20
_LONGEST_NS = 1 << 62

Model = Literal["zipf", "zeta"]


class Sizes(Struct, frozen=True):
    """Bytes of payloads: "100", "uniform:10:200", or "lognormal:100:0.8" (median, sigma)."""

    kind: Literal["constant", "uniform", "lognormal"] = "constant"
    first: float = 100
    second: float = 0

    @classmethod
    def parse(cls, text: str) -> Sizes:
        kind, *rest = text.split(":")
        try:
            if not rest:
                return cls("constant", _bytes(kind))
            first, second = rest
            if kind == "uniform" and _bytes(first) <= _bytes(second):
                return cls("uniform", _bytes(first), _bytes(second))
            if kind == "lognormal" and float(first) >= 1 and 0 < float(second) <= 10:
                return cls("lognormal", float(first), float(second))
        except ValueError:
            pass
        raise WorkloadError(
            f"sizes: {text!r} is not a number of bytes up to {LARGEST_SIZE}, uniform:LOW:HIGH or "
            "lognormal:MEDIAN:SIGMA"
        )


class WorkloadSpec(Struct, frozen=True, kw_only=True):
    model: Model
    events: int
    """Updates and insertions; what temporary keys add comes on top."""
    keys: int | None = None
    """Of the Zipf model, at the beginning."""
    skew: float
    rate: float = 200.0
    """Updates per second."""
    insertions: float = 0.0
    """Per second."""
    temporary: float = 0.0
    """Temporary keys that are born per second."""
    lifetime: float = 1.0
    """Mean of a temporary key, in seconds."""
    sizes: Sizes = Sizes()
    seed: int = 1
    chunk_events: int = 1 << 20
    """Part of what the workload is: other chunks, other events."""

    @property
    def total_rate(self) -> float:
        return self.rate + self.insertions

    @property
    def insertion_share(self) -> float:
        return self.insertions / self.total_rate

    @property
    def chunks(self) -> int:
        return -(-self.events // self.chunk_events)

    def check(self) -> WorkloadSpec:
        """Itself, if it can be made; raises `WorkloadError`."""
        bounds: list[tuple[str, float, float, float]] = [
            ("events", self.events, 1, self.chunk_events * MOST_CHUNKS),
            ("rate", self.rate, 1e-9, 1e12),
            ("insertions", self.insertions, 0, 1e12),
            ("temporary", self.temporary, 0, 1e12),
            ("lifetime", self.lifetime, 1e-9, 1e9),
            ("seed", self.seed, 0, 2**63 - 1),
            ("chunk_events", self.chunk_events, 1, 1 << 24),
            ("skew", self.skew, 0, 99),
        ]
        for name, value, least, most in bounds:
            if not least <= value <= most:
                raise WorkloadError(f"{name}: {value:g} is not between {least:g} and {most:g}")
        if self.model == "zeta":
            if self.keys is not None:
                raise WorkloadError("keys: the Zeta model has infinitely many; leave it out")
            if not self.skew > 1:
                raise WorkloadError(
                    f"skew: {self.skew:g} is not above 1, and over infinitely many keys it must be"
                )
        elif self.keys is None or not 1 <= self.keys <= 1 << 60:
            raise WorkloadError("keys: the Zipf model needs at least 1, and at most 2^60")
        seconds = self.events / self.total_rate
        if seconds * NS_PER_S > _LONGEST_NS:
            raise WorkloadError(
                f"{self.events} events at {self.total_rate:g} per second take {seconds:.3g} s, "
                "more than nanoseconds can count; raise the rate"
            )
        return self


def _bytes(text: str) -> int:
    size = int(text)
    if not 0 <= size <= LARGEST_SIZE:
        raise ValueError(text)
    return size
