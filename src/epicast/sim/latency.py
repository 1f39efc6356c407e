"""How long a message is under way. Models draw for all targets of a send at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epicast.core import ConfigError, NodeId

_BLOCK = 1 << 14
_LONGEST_MS = 3_600_000.0


class Latency(ABC):
    """One-way delays in nanoseconds."""

    constant: int | None = None
    """The delay, for models where it is always the same (and order is kept for free)."""

    @abstractmethod
    def draw(self, source: NodeId, targets: Sequence[NodeId]) -> list[int]:
        """One delay per target."""

    @abstractmethod
    def typical(self) -> int:
        """About the middle of what is drawn."""

    def transfer_ns(self, now: int, source: NodeId, target: NodeId, size: int) -> int:
        """What a message on a connection takes besides, where the way itself is narrow. Asked only
        where the sizes of messages are known."""
        return 0


class ConstantLatency(Latency):
    def __init__(self, delay_ns: int) -> None:
        if delay_ns < 0:
            raise ConfigError(f"latency: {delay_ns} ns is negative")
        self.constant = delay_ns

    def draw(self, source: NodeId, targets: Sequence[NodeId]) -> list[int]:
        assert self.constant is not None
        return [self.constant] * len(targets)

    def typical(self) -> int:
        assert self.constant is not None
        return self.constant


class DrawnLatency(Latency):
    """Base of models that draw from a distribution, a block at a time."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._block: list[int] = []
        self._next = 0

    @abstractmethod
    def sample(self, count: int) -> NDArray[np.float64]:
        """`count` independent delays in nanoseconds."""

    def draw(self, source: NodeId, targets: Sequence[NodeId]) -> list[int]:
        start = self._next
        end = start + len(targets)
        if end > len(self._block):
            # Use up what is left: delays must not depend on how many are drawn at a time.
            left = self._block[start:]
            self._block = left + self.sample(max(_BLOCK, len(targets))).astype(np.int64).tolist()
            start, end = 0, len(targets)
        self._next = end
        return self._block[start:end]


class UniformLatency(DrawnLatency):
    def __init__(self, low_ns: int, high_ns: int, seed: int) -> None:
        super().__init__(seed)
        if not 0 <= low_ns <= high_ns:
            raise ConfigError(f"latency: {low_ns}..{high_ns} ns is not an ascending range")
        self._low, self._high = low_ns, high_ns

    def sample(self, count: int) -> NDArray[np.float64]:
        return self._rng.uniform(self._low, self._high, count)

    def typical(self) -> int:
        return (self._low + self._high) // 2


class PercentileLatency(DrawnLatency):
    """A distribution known by percentiles, and possibly by its mean and standard deviation.

    Between two percentiles delays are spread evenly, unless mean and deviation are given. Then the
    two things percentiles leave open are fitted to them: how far the upper tail reaches, and how
    much the segments above the median lean towards their lower end.
    """

    def __init__(
        self,
        percentiles: Mapping[float, int],
        seed: int,
        moments_ns: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(seed)
        points = sorted(percentiles.items())
        ranks = [rank / 100 for rank, _ in points]
        delays = [float(delay) for _, delay in points]
        if len(points) < 2:
            raise ConfigError("latency: at least two percentiles are needed, such as p5 and p95")
        if not all(0 <= rank <= 1 for rank in ranks) or min(delays) < 0:
            raise ConfigError("latency: percentiles lie between p0 and p100, delays above 0")
        if any(b < a for a, b in pairwise(delays)):
            raise ConfigError("latency: a higher percentile cannot have a lower delay")
        if ranks[0] > 0:
            ranks, delays = [0.0, *ranks], [0.0, *delays]
        if moments_ns is None:
            if ranks[-1] < 1:
                slope = (delays[-1] - delays[-2]) / (ranks[-1] - ranks[-2])
                ranks, delays = [*ranks, 1.0], [*delays, delays[-1] + slope * (1 - ranks[-1])]
            self._ranks, self._delays = np.array(ranks), np.array(delays)
        else:
            self._ranks, self._delays = _fit_moments(tuple(ranks), tuple(delays), *moments_ns)

    def sample(self, count: int) -> NDArray[np.float64]:
        delays: NDArray[np.float64] = np.interp(self._rng.random(count), self._ranks, self._delays)
        return delays

    def typical(self) -> int:
        return int(np.interp(0.5, self._ranks, self._delays))


class PairLatency(Latency):
    """Between two nodes always the same, in both directions: drawn when it is first needed."""

    def __init__(self, drawn: DrawnLatency) -> None:
        self._drawn = drawn
        self._delays: dict[tuple[NodeId, NodeId], int] = {}

    def draw(self, source: NodeId, targets: Sequence[NodeId]) -> list[int]:
        return [self._between(min(source, each), max(source, each)) for each in targets]

    def _between(self, one: NodeId, other: NodeId) -> int:
        delay = self._delays.get((one, other))
        if delay is None:
            delay = self._delays[one, other] = self._drawn.draw(one, (other,))[0]
        return delay

    def typical(self) -> int:
        return self._drawn.typical()


_STEPS = np.linspace(0.0, 1.0, 200, endpoint=False)


@lru_cache(maxsize=64)
def _fit_moments(
    ranks: tuple[float, ...], delays: tuple[float, ...], mean: float, deviation: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The inverse distribution through the points whose moments are nearest to the wanted ones."""
    ends = [*ranks, 1.0] if ranks[-1] < 1 else list(ranks)
    best: tuple[float, NDArray[np.float64], NDArray[np.float64]] | None = None
    for lean in np.arange(1.0, 4.0, 0.01):
        for reach in np.arange(1.0, 8.0, 0.05) if ranks[-1] < 1 else (1.0,):
            tops = [*delays, delays[-1] * reach] if ranks[-1] < 1 else list(delays)
            got_mean, got_deviation = _moments(ends, tops, lean)
            error = abs(got_mean / mean - 1) + abs(got_deviation / deviation - 1)
            if best is None or error < best[0]:
                best = (error, *_inverse(ends, tops, lean))
    assert best is not None
    if best[0] > 0.03:
        raise ConfigError("latency: no distribution with these percentiles has that mean and sd")
    return best[1], best[2]


def _exponents(ends: list[float], lean: float) -> list[float]:
    return [lean if low >= 0.5 else 1.0 for low in ends[:-1]]


def _moments(ends: list[float], tops: list[float], lean: float) -> tuple[float, float]:
    """Mean and deviation of low + (high - low) * u ** exponent in each segment, u uniform."""
    first = second = 0.0
    for i, exponent in enumerate(_exponents(ends, lean)):
        weight, low, rise = ends[i + 1] - ends[i], tops[i], tops[i + 1] - tops[i]
        first += weight * (low + rise / (exponent + 1))
        second += weight * (
            low * low + 2 * low * rise / (exponent + 1) + rise * rise / (2 * exponent + 1)
        )
    return first, float(np.sqrt(second - first * first))


def _inverse(
    ends: list[float], tops: list[float], lean: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ranks, delays = [], []
    for i, exponent in enumerate(_exponents(ends, lean)):
        ranks.append(ends[i] + (ends[i + 1] - ends[i]) * _STEPS)
        delays.append(tops[i] + (tops[i + 1] - tops[i]) * _STEPS**exponent)
    return np.append(np.concatenate(ranks), 1.0), np.append(np.concatenate(delays), tops[-1])


class MatrixLatency(Latency):
    """Delays between sites; node n is at site n modulo the number of sites, unless placed."""

    def __init__(
        self, delays_ns: NDArray[np.int64], placement: Mapping[NodeId, int] | None = None
    ) -> None:
        if delays_ns.ndim != 2 or delays_ns.shape[0] != delays_ns.shape[1]:
            raise ConfigError(f"latency matrix: {delays_ns.shape} is not a square table")
        if (delays_ns < 0).any():
            raise ConfigError("latency matrix: delays cannot be negative")
        self._delays: list[list[int]] = delays_ns.tolist()
        self._placement = {} if placement is None else placement

    def site(self, node: NodeId) -> int:
        site = self._placement.get(node)
        return node % len(self._delays) if site is None else site

    def draw(self, source: NodeId, targets: Sequence[NodeId]) -> list[int]:
        row = self._delays[self.site(source)]
        return [row[self.site(target)] for target in targets]

    def typical(self) -> int:
        return int(np.median(np.array(self._delays)))


def parse_matrix(text: str, source_name: str) -> NDArray[np.int64]:
    """A matrix file: a line per site, delays in milliseconds (up to an hour), `#` starts a
    comment."""
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.partition("#")[0].replace(",", " ").split()
        if not fields:
            continue
        try:
            rows.append([_milliseconds(field) for field in fields])
        except ValueError:
            raise ConfigError(
                f"{source_name}, line {number}: expected delays in milliseconds, such as "
                f"'15 72.5'; found '{line.strip()}'"
            ) from None
        if len(rows[-1]) != len(rows[0]):
            raise ConfigError(
                f"{source_name}, line {number}: {len(rows[-1])} delays where the first line has "
                f"{len(rows[0])}"
            )
    if not rows or len(rows) != len(rows[0]):
        raise ConfigError(f"{source_name}: {len(rows)} lines do not make a square table")
    return (np.array(rows) * 1e6).astype(np.int64)


def _milliseconds(field: str) -> float:
    delay = float(field)
    if not 0 <= delay <= _LONGEST_MS:
        raise ValueError
    return delay


EPTO_PERCENTILES_NS = {5.0: 15_000_000, 50.0: 125_000_000, 95.0: 366_000_000}
EPTO_MOMENTS_NS = (157e6, 119e6)


def epto_latency(seed: int) -> PercentileLatency:
    """The wide-area distribution of EpTO's evaluation, a tick taken as a millisecond."""
    return PercentileLatency(EPTO_PERCENTILES_NS, seed, EPTO_MOMENTS_NS)
