"""Payload sizes, drawn many at a time."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from epicast.pipeline.workloads.spec import LARGEST_SIZE, Sizes


def draw_sizes(rng: Generator, sizes: Sizes, rows: int) -> NDArray[np.int32]:
    if sizes.kind == "constant":
        return np.full(rows, sizes.first, dtype=np.int32)
    if sizes.kind == "uniform":
        return rng.integers(int(sizes.first), int(sizes.second) + 1, rows, dtype=np.int32)
    drawn = sizes.first * np.exp(sizes.second * rng.standard_normal(rows))
    return np.minimum(drawn, LARGEST_SIZE).astype(np.int32)
