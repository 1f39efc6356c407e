"""Columns of rows over a buffer of stored batches: what indexes, predicates and reads work on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epicast.core import Buffer

_LEAST_ROWS = 1 << 12


class Rows:
    """One entry per row in each column; keys and payloads stay in `buffer`."""

    __slots__ = ("buffer", "count", "data_bytes", "first", "gc_rows", "key_at", "key_bytes",
                 "kinds", "last", "longest_key", "newest_time", "records", "runs", "seqs", "sizes",
                 "stopped_at", "times")  # fmt: skip

    buffer: NDArray[np.uint8]
    count: int
    seqs: NDArray[np.uint64]
    key_at: NDArray[np.int64]
    key_bytes: NDArray[np.int64]
    sizes: NDArray[np.int64]
    """Bytes of the payload."""
    times: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    first: int
    last: int
    """What all batches together cover."""
    runs: int
    """How many publisher runs they have."""
    records: NDArray[np.int64]
    """The batches the rows come from, see `record_table`."""
    longest_key: int
    gc_rows: int
    newest_time: int
    stopped_at: int
    """Where the records end that were understood."""
    data_bytes: int
    """Bytes of all keys and payloads."""

    @classmethod
    def of_keys(cls, keys: Sequence[bytes]) -> Rows:
        """Rows that have only keys: to look something up."""
        rows = cls.__new__(cls)
        lengths = list(map(len, keys))
        rows.buffer = as_bytes(b"".join(keys))
        rows.count = len(keys)
        rows.key_bytes = np.array(lengths, dtype=np.int64)
        rows.key_at = np.array([0, *accumulate(lengths)][:-1], dtype=np.int64)
        rows.longest_key = max(lengths, default=0)
        return rows

    @classmethod
    def empty(cls) -> Rows:
        rows = cls.of_keys([])
        rows.seqs = np.empty(0, dtype=np.uint64)
        rows.sizes = rows.times = np.empty(0, dtype=np.int64)
        rows.kinds = np.empty(0, dtype=np.uint8)
        return rows

    def where(self, wanted: NDArray[np.bool_]) -> Rows:
        """Only some of the rows, in columns of their own."""
        part = Rows.__new__(Rows)
        part.buffer = self.buffer
        part.seqs = self.seqs[wanted]
        part.count = len(part.seqs)
        part.key_at = self.key_at[wanted]
        part.key_bytes = self.key_bytes[wanted]
        part.sizes = self.sizes[wanted]
        part.times = self.times[wanted]
        part.kinds = self.kinds[wanted]
        part.longest_key = self.longest_key
        return part

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        return self.seqs, self.key_at, self.key_bytes, self.sizes, self.times, self.kinds

    def shorten(self, count: int) -> None:
        """Forget all rows but the first so many."""
        self.count = count
        self.seqs = self.seqs[:count]
        self.key_at = self.key_at[:count]
        self.key_bytes = self.key_bytes[:count]
        self.sizes = self.sizes[:count]
        self.times = self.times[:count]
        self.kinds = self.kinds[:count]

    def record_table(self) -> NDArray[np.int64]:
        """One line per stored batch; see `epicast.log.kernels.rows` for its columns."""
        return self.records.reshape(-1, 6)

    def key(self, row: int) -> bytes:
        at = self.key_at.item(row)
        return self.buffer[at : at + self.key_bytes.item(row)].tobytes()

    def payload(self, row: int) -> bytes:
        at = self.key_at.item(row) + self.key_bytes.item(row)
        return self.buffer[at : at + self.sizes.item(row)].tobytes()


class Scanner:
    """Reads rows from stored batches into columns that the next scan overwrites."""

    def __init__(self) -> None:
        from epicast.log.kernels import rows

        self._kernel: Any = rows.scan
        self._room = 0
        self._columns: list[NDArray[Any]] = []
        self._parts: list[NDArray[Any]] = []
        self._records = np.empty(0, dtype=np.int64)
        self._summary = np.zeros(10, dtype=np.int64)
        self._make_room(_LEAST_ROWS)

    def scan(self, buffer: Buffer, at: int, stop: int) -> Rows:
        """The rows of the records between `at` and `stop`; fewer if one of them is no batch."""
        needed = (stop - at) // 8 + 1
        if needed > self._room:
            self._make_room(needed)
        view = as_bytes(buffer)
        rows = Rows.__new__(Rows)
        self._kernel(view, at, stop, *self._columns, self._records, self._summary)
        (count, records, rows.stopped_at, rows.longest_key, rows.gc_rows, rows.newest_time,
         rows.data_bytes, rows.runs, rows.first, rows.last) = self._summary.tolist()  # fmt: skip
        rows.buffer = view
        rows.count = count
        if count != len(self._parts[0]):  # batches of one size mostly come in a row
            self._parts = [column[:count] for column in self._columns]
        (rows.seqs, rows.key_at, rows.key_bytes, rows.sizes, rows.times,
         rows.kinds) = self._parts  # fmt: skip
        rows.records = self._records[: 6 * records]
        return rows

    def _make_room(self, rows: int) -> None:
        self._room = rows
        self._columns = [
            np.empty(rows, dtype=kind)
            for kind in (np.uint64, np.int64, np.int64, np.int64, np.int64, np.uint8)
        ]
        self._parts = self._columns
        self._records = np.empty(6 * (rows // 8 + 1), dtype=np.int64)


def as_bytes(buffer: Buffer) -> NDArray[np.uint8]:
    """An array over the buffer, always read-only: kernels are compiled for one type only."""
    view = np.frombuffer(buffer, dtype=np.uint8)
    view.flags.writeable = False
    return view


def enlarged(array: NDArray[Any], size: int) -> NDArray[Any]:
    """A longer array that starts like this one; the rest is anything."""
    larger: NDArray[Any] = np.empty(size, dtype=array.dtype)
    larger[: len(array)] = array
    return larger
