"""How large the system is, and what follows from that.

The size is estimated by extrema propagation (Baquero, Almeida and Menezes 2009): every node draws a
number from an exponential distribution for each of `SAMPLES` places, and gossip finds the smallest
of each place. The smallest of n such numbers are themselves exponential with n times the rate, so
their mean tells n, with a deviation of about 1 / sqrt(SAMPLES - 2). As a minimum never rises again,
all draw anew in every epoch: who has left is no longer counted when the epoch after is over.
"""

from __future__ import annotations

from math import ceil, e, log, log2
from random import Random

import numpy as np
from numpy.typing import NDArray

SAMPLES = 64
SMALL_SYSTEM = 16
"""Below so many processes a ball goes to all of them: there is no sense in the law for K there."""
MAX_SIZE = 10**7
"""No system is larger: what would make it so is not believed."""
LAST_EPOCH = 1 << 40
_MAX_EPOCHS_AHEAD = 1 << 24
"""Of a node that has not just come: most of a year, if an epoch takes a second and a half."""
MARGIN = 1.3
"""By which an estimate is raised: two of its deviations."""


def fanout_for(size: int) -> int:
    """K: the peers each ball is sent to."""
    if size < SMALL_SYSTEM:
        return max(1, size - 1)
    return min(size - 1, ceil(2 * e * log(size) / log(log(size))))


def ttl_for(size: int) -> int:
    """TTL: the rounds an event is passed on for."""
    return max(1, ceil(log2(max(2, size))))


class SizeEstimate:
    __slots__ = ("_floor", "_minima", "_rng", "_rounds", "_rounds_per_epoch", "epoch", "size")

    def __init__(self, rounds_per_epoch: int, rng: Random, floor: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(rng.getrandbits(64)))
        self._rounds_per_epoch = rounds_per_epoch
        self._floor = floor
        self._rounds = 0
        self.epoch = 0
        self.size = floor
        """As far as is known: from the last epoch that was whole, or told by others."""
        self._minima = self._draw()

    def _draw(self) -> NDArray[np.float32]:
        return self._rng.standard_exponential(SAMPLES).astype("<f4")

    def next_round(self) -> None:
        self._rounds += 1
        if self._rounds > self._rounds_per_epoch:
            self._begin(min(self.epoch + 1, LAST_EPOCH))

    def _begin(self, epoch: int) -> None:
        if self._rounds >= self._rounds_per_epoch // 2:  # or it is not the whole system's
            self.size = max(1, round(self.estimate))
        self.epoch = epoch
        self._rounds = 0
        self._minima = self._draw()

    @property
    def estimate(self) -> float:
        """From this epoch so far."""
        return min(MAX_SIZE, _estimate(self._minima))

    def to_send(self) -> bytes:
        return self._minima.tobytes()

    def hear(self, epoch: int, minima: bytes, size: int) -> bool:
        """What another node knows; whether it makes sense."""
        if len(minima) != 4 * SAMPLES or not 0 <= size <= MAX_SIZE:
            return False
        last = self.epoch + _MAX_EPOCHS_AHEAD if self.epoch else LAST_EPOCH
        if not 0 <= epoch <= min(last, LAST_EPOCH):
            return False
        theirs = np.frombuffer(minima, dtype="<f4")
        if not (theirs > 0).all() or _estimate(theirs) > MAX_SIZE:
            return False
        if epoch > self.epoch:
            if self.epoch == 0:  # we have just come: they know better
                self.size = max(self._floor, size)
            self._begin(epoch)
        if epoch == self.epoch:
            np.minimum(self._minima, theirs, out=self._minima)
        return True


def _estimate(minima: NDArray[np.float32]) -> float:
    return (SAMPLES - 1) / max(1e-9, float(minima.sum(dtype=np.float64)))
