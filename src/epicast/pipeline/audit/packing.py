"""Arrays packed into bytes, which is how they travel through Spark: few rows, each with a lot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def pack(*arrays: NDArray[Any]) -> bytes:
    """How many bytes each has, then the bytes of all."""
    parts = [np.ascontiguousarray(array) for array in arrays]
    sizes = np.array([len(parts), *(part.nbytes for part in parts)], dtype=np.uint64)
    return b"".join([sizes.tobytes(), *(part.tobytes() for part in parts)])


def unpack(packed: bytes | memoryview, *types: DTypeLike) -> list[NDArray[Any]]:
    """The arrays again, as read-only views; each of the type it had."""
    sizes = np.frombuffer(packed, np.uint64, 1 + len(types))[1:].tolist()
    arrays = []
    at = 8 * (1 + len(types))
    for kind, size in zip(types, sizes, strict=True):
        dtype = np.dtype(kind)
        arrays.append(np.frombuffer(packed, dtype, size // dtype.itemsize, at))
        at += size
    return arrays
