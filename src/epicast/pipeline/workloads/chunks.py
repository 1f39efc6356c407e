"""The events of one chunk, from the description of the workload and the number of the chunk alone.

Every chunk has its own seeds, so it does not matter which process makes it, or after which others.
Two things reach across chunks, and both are cheap to make again:

* Time. The arrivals of a Poisson process divide into stretches of `chunk_events` events each, whose
  lengths are gamma distributed and independent; they are drawn from one seed, all before a chunk
  in one call. Within a stretch, given its length, arrivals are the partial sums of exponential gaps
  scaled to it. Together that is the process itself, not something like it. A shorter workload is
  the beginning of a longer one.
* Popularity. Which events are insertions, and at which ranks, comes from seeds of its own, so that
  a task draws those of all chunks before its own and nothing else of them.

Columns are those of the files: `time` in nanoseconds since the beginning, `key`, `op`, `size`.
Original keys are 1, 2, 3, …, inserted ones -1, -2, … in order of insertion.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from epicast.experiments.zipf import draw_zeta
from epicast.pipeline.workloads.growing_zipf import GrowingZipf
from epicast.pipeline.workloads.popularity import Popularity
from epicast.pipeline.workloads.sizes import draw_sizes
from epicast.pipeline.workloads.spec import NS_PER_S, WorkloadSpec
from epicast.pipeline.workloads.temporary import TemporaryKeys

if TYPE_CHECKING:
    from epicast.experiments.ranked_keys import RankedKeys

Column = NDArray[np.int64]


class Op(IntEnum):
    UPDATE = 0
    INSERT = 1
    DELETE = 2


class Columns(NamedTuple):
    time: NDArray[np.int64]
    key: NDArray[np.int64]
    op: NDArray[np.int8]
    size: NDArray[np.int32]

    def part(self, first: int, end: int) -> Columns:
        rows = slice(first, end)
        return Columns(self.time[rows], self.key[rows], self.op[rows], self.size[rows])


@lru_cache(maxsize=1)
def maker_of(spec: WorkloadSpec) -> ChunkMaker:
    """One per process: tables and popularity are worth keeping from task to task."""
    return ChunkMaker(spec)


class _Purpose(IntEnum):
    """Seeds of a chunk, and of the whole."""

    INSERTIONS = 0
    UPDATES = 1
    TEMPORARY = 2
    SPANS = 3


class ChunkMaker:
    """Makes chunks of one workload. Ascending order is cheapest where keys are inserted."""

    def __init__(self, spec: WorkloadSpec) -> None:
        self._spec = spec
        self._zipf = None if spec.keys is None else GrowingZipf(spec.keys, spec.skew)
        self._next = 0
        self._popularity = Popularity()
        """Before the chunk `_next`."""
        lengths = _rng(spec, 0, _Purpose.SPANS).standard_gamma(spec.chunk_events, spec.chunks)
        spans = np.maximum(1, np.rint(lengths * (NS_PER_S / spec.total_rate))).astype(np.int64)
        self._edges = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(spans)])
        self._temporary = TemporaryKeys(
            spec, self._edges, lambda chunk: _rng(spec, chunk, _Purpose.TEMPORARY)
        )

    def make(self, chunk: int) -> Columns:
        spec = self._spec
        rows = spec.chunk_events
        rng = _rng(spec, chunk, _Purpose.UPDATES)
        gaps = rng.standard_exponential(rows)
        arrivals = np.cumsum(gaps)
        start, end = self._edges[chunk : chunk + 2].tolist()
        arrivals *= (end - start) / arrivals[-1]
        time = start + np.minimum(arrivals.astype(np.int64), end - start)
        time[-1] = end
        sizes = draw_sizes(rng, spec.sizes, rows)
        op = np.zeros(rows, dtype=np.int8)
        if spec.insertions:
            key, insertions = self._keys_with_insertions(rng, chunk)
            op[insertions] = Op.INSERT
        else:
            key = self._draw(rng, rows, spec.keys)
        columns = Columns(time, key, op, sizes).part(0, spec.events - chunk * rows)
        return self._with_temporary(chunk, columns) if spec.temporary else columns

    def _draw(self, rng: Generator, rows: int, bounds: int | Column | None) -> Column:
        """Ranks up to the bounds, if there are any."""
        if self._zipf is None or bounds is None:
            return draw_zeta(rng, self._spec.skew, rows)
        if isinstance(bounds, int):
            bounds = np.broadcast_to(np.int64(bounds), rows)
        return self._zipf.draw(rng, bounds)

    def _keys_with_insertions(self, rng: Generator, chunk: int) -> tuple[Column, NDArray[np.bool_]]:
        from epicast.experiments.ranked_keys import RankedKeys

        if chunk < self._next:
            self._next, self._popularity = 0, Popularity()
        while self._next < chunk:
            marks, ranks, _ = self._insertions(self._next)
            ranked = RankedKeys()
            ranked.apply(ranks, np.ones(len(ranks), dtype=np.bool_))
            self._advance(ranked)
        before = self._popularity.inserted
        marks, inserted_at, bounds = self._insertions(chunk)
        ranks = self._draw(rng, len(marks), bounds)
        ranks[marks] = inserted_at
        ranked = RankedKeys()
        found = ranked.apply(ranks, marks)
        old = found > 0
        key = found - before
        key[old] = self._popularity.keys_at(found[old])
        self._advance(ranked)
        return key, marks

    def _insertions(self, chunk: int) -> tuple[NDArray[np.bool_], Column, Column | None]:
        """Which events of the chunk are insertions, their ranks, and how many keys there are at
        every event."""
        rng = _rng(self._spec, chunk, _Purpose.INSERTIONS)
        marks = rng.random(self._spec.chunk_events) < self._spec.insertion_share
        bounds = None
        if self._spec.keys is not None:  # the place of a new key counts
            bounds = self._spec.keys + self._popularity.inserted + np.cumsum(marks)
        ranks = self._draw(rng, int(marks.sum()), None if bounds is None else bounds[marks])
        return marks, ranks, bounds

    def _advance(self, ranked: RankedKeys) -> None:
        ranks, keys = ranked.listed()
        self._popularity.add(ranks, keys - self._popularity.inserted)
        self._next += 1

    def _with_temporary(self, chunk: int, columns: Columns) -> Columns:
        lives = self._temporary.within(chunk, int(columns.time[-1]))
        key = np.concatenate([lives.born.key, lives.gone.key])
        time = np.concatenate([lives.born.time, lives.gone.time])
        op = np.repeat(np.array([Op.INSERT, Op.DELETE], dtype=np.int8),
                       [len(lives.born.key), len(lives.gone.key)])  # fmt: skip
        size = np.concatenate([lives.born.size, np.zeros(len(lives.gone.key), dtype=np.int32)])
        order = np.argsort(time, kind="stable")
        at = np.searchsorted(columns.time, time[order], side="right")
        return Columns(
            np.insert(columns.time, at, time[order]),
            np.insert(columns.key, at, key[order]),
            np.insert(columns.op, at, op[order]),
            np.insert(columns.size, at, size[order]),
        )


def _rng(spec: WorkloadSpec, chunk: int, purpose: _Purpose) -> Generator:
    return np.random.default_rng(SeedSequence([spec.seed, chunk], spawn_key=(purpose,)))
