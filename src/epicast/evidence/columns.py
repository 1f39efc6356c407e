"""Columns of Arrow made from their buffers.

`pa.array` would do, if it did not import pandas wherever that is installed: half a second of every
process that writes evidence, in the middle of its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def numbers(values: Sequence[int] | NDArray[Any], kind: pa.DataType) -> pa.Array:
    column = np.ascontiguousarray(values, dtype=kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])


def binaries(values: Sequence[bytes]) -> pa.Array:
    ends = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum([len(value) for value in values], out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return binaries(values) if pa.types.is_binary(kind) else numbers(values, kind)


class Pile:
    """Values of a binary column, piled up in memory that is used again and again."""

    def __init__(self, kind: type[np.generic]) -> None:
        self._values: NDArray[Any] = np.empty(1 << 16, dtype=kind)
        self._used = 0
        self._ends = [0]

    @property
    def bytes(self) -> int:
        return self._used * self._values.itemsize

    def room(self, count: int) -> NDArray[Any]:
        """For the next value, which is so long."""
        end = self._used + count
        if end > len(self._values):
            larger = np.empty(2 * end, dtype=self._values.dtype)
            larger[: self._used] = self._values[: self._used]
            self._values = larger
        begin, self._used = self._used, end
        self._ends.append(self.bytes)
        return self._values[begin:end]

    def column(self) -> pa.Array:
        ends = pa.py_buffer(np.array(self._ends, dtype=np.int32))
        values = pa.py_buffer(self._values[: self._used])
        return pa.Array.from_buffers(pa.binary(), len(self._ends) - 1, [None, ends, values])

    def clear(self) -> None:
        self._used = 0
        self._ends = [0]
