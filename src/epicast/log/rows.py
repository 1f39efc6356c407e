"""Columns of rows over a buffer of stored batches: what indexes, predicates and reads work on.

Batches are measured first: checked, counted, and listed with where they are. That is all that most
appends need; whoever looks at rows one by one has them loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epicast.core import Buffer

_LEAST_ROWS = 1 << 12
_BYTE = np.dtype(np.uint8)


class Rows:
    """One entry per row in each column; keys and payloads stay in `buffer`."""

    __slots__ = ("_scanner", "buffer", "count", "data_bytes", "first", "gc_rows", "key_at",
                 "key_bytes", "kinds", "last", "longest_batch", "longest_key", "newest_time",
                 "records", "runs", "seqs", "sizes", "stopped_at", "times")  # fmt: skip

    _scanner: Scanner | None
    """Who can load the columns, if they are not."""
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
    longest_batch: int
    """Rows of the batch that has most."""
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
        rows._scanner = None
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
        part._scanner = None
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
    def is_dense(self) -> bool:
        """Whether every number covered has its row."""
        return self.count == self.last - self.first + 1

    def load(self) -> Rows:
        """Fill the columns, if they are not, in room that the scanner uses again."""
        if self._scanner is not None:
            self._scanner.load(self)
            self._scanner = None
        return self

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

        self._kernels: Any = rows
        self._width: int = rows.RECORD_COLUMNS
        self._columns: list[NDArray[Any]] = []
        self._parts: list[NDArray[Any]] = []
        self._make_room(_LEAST_ROWS)
        self._records = np.empty(_LEAST_ROWS, dtype=np.int64)
        self._summary = np.zeros(rows.SUMMARY_SIZE, dtype=np.int64)

    def scan(self, buffer: Buffer, at: int, stop: int) -> Rows:
        """The rows of the records between `at` and `stop`; fewer if one of them is no batch."""
        return self.measure(buffer, at, stop).load()

    def measure(self, buffer: Buffer | NDArray[np.uint8], at: int, stop: int) -> Rows:
        """The same with columns to be loaded, before the next scan."""
        rows = Rows.__new__(Rows)
        rows._scanner = self
        rows.buffer = buffer if isinstance(buffer, np.ndarray) else as_bytes(buffer)
        self._kernels.measure(
            rows.buffer, at, stop, self._room_for_records(stop - at), self._summary
        )
        (rows.count, records, rows.stopped_at, rows.longest_key, rows.gc_rows, rows.newest_time,
         rows.data_bytes, rows.runs, rows.first, rows.last,
         rows.longest_batch) = self._summary.tolist()  # fmt: skip
        rows.records = self._records[: self._width * records]
        return rows

    def list_records(self, buffer: Buffer, at: int, stop: int) -> Rows:
        """The records between `at` and `stop`, known to be sound; `pick` is for their rows."""
        rows = Rows.__new__(Rows)
        rows._scanner = self
        rows.buffer = as_bytes(buffer)
        self._kernels.list_records(
            rows.buffer, at, stop, self._room_for_records(stop - at), self._summary
        )
        rows.count, records, *_, rows.first, rows.last, _ = self._summary.tolist()
        rows.records = self._records[: self._width * records]
        return rows

    def pick(self, rows: Rows, wanted: NDArray[np.uint64]) -> Rows:
        """Of rows that are not loaded yet, those with some ascending numbers."""
        if len(wanted) > len(self._columns[0]):
            self._make_room(len(wanted))
        count = self._kernels.pick(rows.buffer, rows.records, wanted, *self._columns)
        rows._scanner = None
        (rows.seqs, rows.key_at, rows.key_bytes, rows.sizes, rows.times,
         rows.kinds) = self._columns  # fmt: skip
        rows.shorten(count)
        return rows

    def load(self, rows: Rows) -> None:
        if rows.count > len(self._columns[0]):
            self._make_room(rows.count)
        self._kernels.load(rows.buffer, rows.records, *self._columns)
        if rows.count != len(self._parts[0]):  # batches of one size mostly come in a row
            self._parts = [column[: rows.count] for column in self._columns]
        (rows.seqs, rows.key_at, rows.key_bytes, rows.sizes, rows.times,
         rows.kinds) = self._parts  # fmt: skip

    def _room_for_records(self, size: int) -> NDArray[np.int64]:
        needed = self._width * (size // 64 + 1)
        if needed > len(self._records):
            self._records = np.empty(needed, dtype=np.int64)
        return self._records

    def _make_room(self, rows: int) -> None:
        self._columns = [
            np.empty(rows, dtype=kind)
            for kind in (np.uint64, np.int64, np.int64, np.int64, np.int64, np.uint8)
        ]
        self._parts = self._columns


def as_bytes(buffer: Buffer) -> NDArray[np.uint8]:
    """An array over the buffer, always read-only: kernels are compiled for one type only."""
    view = np.frombuffer(buffer, _BYTE)
    if type(buffer) is not bytes:
        view.flags.writeable = False
    return view


def enlarged(array: NDArray[Any], size: int) -> NDArray[Any]:
    """A longer array that starts like this one; the rest is anything."""
    larger: NDArray[Any] = np.empty(size, dtype=array.dtype)
    larger[: len(array)] = array
    return larger
