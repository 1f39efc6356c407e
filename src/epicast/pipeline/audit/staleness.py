"""How old events were when they were handed out, in buckets that can be added up anywhere.

A bucket is the exponent of a number and the first six bits behind its leading one: two numbers in
one bucket differ by less than 1/64. Percentiles are the upper end of their bucket, so they are too
large by at most 1.6 %, never too small; the maximum is exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BITS = 6
_SHIFT = 52 - _BITS
_BASE = int(np.float64(1).view(np.int64)) >> _SHIFT
BUCKETS = 64 << _BITS
"""Enough for all ages in nanoseconds that fit into 63 bits."""

Counts = NDArray[np.int64]


def buckets_of(ages: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bucket of each age in nanoseconds; 0 for those below one."""
    exact = np.maximum(ages, 1).astype(np.float64)
    found: NDArray[np.int64] = (exact.view(np.int64) >> _SHIFT) - _BASE
    return found


def histogram(ages: NDArray[np.int64], weights: NDArray[np.int64]) -> Counts:
    counted = np.bincount(buckets_of(ages), weights=weights, minlength=BUCKETS)
    return counted.astype(np.int64)


def upper_end(bucket: int) -> int:
    """The largest age in a bucket."""
    edge = np.int64((bucket + 1 + _BASE) << _SHIFT).view(np.float64)
    return int(np.ceil(edge)) - 1


def percentile(counts: Counts, share: float, largest: int) -> int:
    """The age that this share of the events does not exceed."""
    total = int(counts.sum())
    if not total:
        return 0
    rank = max(1, int(np.ceil(share * total)))
    bucket = int(np.searchsorted(np.cumsum(counts), rank))
    return min(upper_end(bucket), largest)
