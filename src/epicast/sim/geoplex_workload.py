"""What is published in a simulated geoplex: keys of uneven popularity, payloads that all differ."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch
from epicast.deployment import StreamWorkload

_EXACT_RANKS = 1 << 20


class ZipfKeys:
    """Keys drawn with a probability proportional to rank ** -skew.

    Exact for the first million ranks; behind them the sum is an integral, which is as good there.
    """

    def __init__(self, keys: int, skew: float, seed: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._keys = keys
        self._skew = skew
        exact = min(keys, _EXACT_RANKS)
        self._sums = np.cumsum(np.arange(1, exact + 1, dtype=np.float64) ** -skew)
        self._head = self._sums.item(-1)
        self._total = self._head + (self._weight(keys) - self._weight(exact))

    def draw(self, count: int) -> list[bytes]:
        places = self._rng.random(count) * self._total
        ranks = np.searchsorted(self._sums, places, side="right") + 1
        tail = places >= self._head
        if tail.any():
            ranks[tail] = self._tail_ranks(places[tail] - self._head)
        return [b"k%d" % rank for rank in ranks.tolist()]

    def _weight(self, rank: float) -> float:
        """The integral of the weights up to a rank, but for a constant."""
        if self._skew == 1.0:
            return float(np.log(rank))
        return float(rank ** (1 - self._skew) / (1 - self._skew))

    def _tail_ranks(self, beyond: NDArray[np.float64]) -> NDArray[np.int64]:
        at = beyond + self._weight(_EXACT_RANKS)
        if self._skew == 1.0:
            ranks = np.exp(at)
        else:
            ranks = (at * (1 - self._skew)) ** (1 / (1 - self._skew))
        clipped: NDArray[np.int64] = np.clip(ranks, _EXACT_RANKS + 1, self._keys).astype(np.int64)
        return clipped


class Workload:
    """One of the file's workloads: its next batch, whenever it is due."""

    def __init__(self, plan: StreamWorkload, stream: int, number: int, seed: int) -> None:
        self.plan = plan
        self._stream = stream
        self._number = number
        self._keys = ZipfKeys(plan.keys, plan.zipf, seed) if plan.keys else None
        self._published = 0

    def times(self, end_ns: int) -> range:
        """When its batches are due, publishing as a whole ending at `end_ns`."""
        plan = self.plan
        until = end_ns if plan.for_ns is None else min(end_ns, plan.from_ns + plan.for_ns)
        every = max(1, round(plan.batch / plan.rate_per_second * 1_000_000_000))
        return range(plan.from_ns, until, every)

    def next_batch(self, count: int) -> EventBatch:
        first = self._published + 1
        self._published += count
        payloads = [self._payload(first + index) for index in range(count)]
        keys = None if self._keys is None else self._keys.draw(count)
        return EventBatch.build(self._stream, first, payloads, keys=keys)

    def _payload(self, number: int) -> bytes:
        stamp = b"%d:%d:" % (self._number, number)
        return (stamp * (self.plan.size_bytes // len(stamp) + 1))[: self.plan.size_bytes]
