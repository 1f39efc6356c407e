"""Temporary keys: born as a Poisson process, deleted after a lifetime of their own.

Those born within the time of a chunk follow from a seed of that chunk. Whoever asks who is deleted
within a chunk draws the births of that chunk and of those before it again, as far back as a
lifetime can reach.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from epicast.pipeline.workloads.sizes import draw_sizes
from epicast.pipeline.workloads.spec import LIFETIME_CUT, NS_PER_S, WorkloadSpec

FIRST_TEMPORARY = (1 << 62) + 1
"""Other keys are below. A key tells the chunk it was born in, and its number there."""
_PER_CHUNK_BITS = 32


class Moments(NamedTuple):
    time: NDArray[np.int64]
    key: NDArray[np.int64]
    size: NDArray[np.int32]


class Lives(NamedTuple):
    born: Moments
    gone: Moments


class _Births(NamedTuple):
    born: Moments
    ends: NDArray[np.int64]


class TemporaryKeys:
    def __init__(
        self,
        spec: WorkloadSpec,
        edges: NDArray[np.int64],
        seeded: Callable[[int], Generator],
    ) -> None:
        """Chunk i takes from `edges[i]`, exclusive, to `edges[i + 1]`."""
        self._spec = spec
        self._edges = edges
        self._seeded = seeded
        self._reach = int(LIFETIME_CUT * spec.lifetime * NS_PER_S) + 1
        self._births = lru_cache(maxsize=64)(self._draw_births)

    def within(self, chunk: int, until: int) -> Lives:
        """Who is born and who is deleted in a chunk, up to a moment."""
        start, end = self._edges[chunk].item(), min(self._edges[chunk + 1].item(), until)
        earliest = int(np.searchsorted(self._edges, start - self._reach, side="right")) - 1
        gone = [self._gone(other, start, end) for other in range(max(0, earliest), chunk + 1)]
        born = self._births(chunk).born
        kept = born.time <= end
        return Lives(
            Moments(*(column[kept] for column in born)),
            Moments(*(np.concatenate(columns) for columns in zip(*gone, strict=True))),
        )

    def _gone(self, chunk: int, start: int, end: int) -> Moments:
        births = self._births(chunk)
        gone = (births.ends > start) & (births.ends <= end)
        return Moments(births.ends[gone], births.born.key[gone], births.born.size[gone])

    def _draw_births(self, chunk: int) -> _Births:
        spec, rng = self._spec, self._seeded(chunk)
        start, end = self._edges[chunk].item(), self._edges[chunk + 1].item()
        count = int(rng.poisson(spec.temporary * (end - start) / NS_PER_S))
        time = np.sort(rng.integers(start + 1, end + 1, count))
        drawn = -np.log1p(-rng.random(count) * -np.expm1(-float(LIFETIME_CUT)))
        lives = np.maximum(1, np.rint(drawn * (spec.lifetime * NS_PER_S))).astype(np.int64)
        key = FIRST_TEMPORARY + (chunk << _PER_CHUNK_BITS) + np.arange(count)
        return _Births(Moments(time, key, draw_sizes(rng, spec.sizes, count)), time + lives)
