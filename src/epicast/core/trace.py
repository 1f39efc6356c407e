"""What happened, one row per batch or message, in columns with a fixed set of kinds.

Simulator and network runtime write the same schema; metrics, the dashboard and the audit read it.
Rows are gathered in blocks; a full block is digested (two runs are the same exactly if their
digests are) and, if asked for, kept. Nothing here touches a file: `to_arrow` gives a table to
write.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


class TraceKind(IntEnum):
    """The list only ever grows at its end: the numbers are in files."""

    PUBLISH = 0
    SEND = 1
    RECEIVE = 2
    DELIVER = 3
    DROP = 4
    PEER_UP = 5
    PEER_DOWN = 6
    VIEW_ADD = 7
    VIEW_REMOVE = 8
    START = 9
    STOP = 10
    CRASH = 11
    APPEND = 12
    ACKNOWLEDGE = 13
    REFUSE = 14
    FAULT = 15
    CONNECT = 16
    DISCONNECT = 17


COLUMNS = ("time", "node", "kind", "peer", "stream", "first", "last", "bytes", "detail")
"""`detail` is an index into `Trace.details`: a message type, a reason, a fault."""

_BLOCK_ROWS = 1 << 15
Row = tuple[int, int, int, int, int, int, int, int, int]


class Trace:
    """Append rows, read the digest. `keep=False` only digests, in constant memory."""

    def __init__(self, *, keep: bool = True, max_rows: int = 50_000_000) -> None:
        self.keep = keep
        self.max_rows = max_rows
        self.truncated = False
        """More rows came than `max_rows`: the rest was digested but not kept."""
        self.details: list[str] = [""]
        self._detail_codes: dict[str, int] = {"": 0}
        self._open: list[Row] = []
        self._blocks: list[NDArray[np.uint64]] = []
        self._closed_rows = 0
        self._hash = blake2b(digest_size=16)

    @property
    def rows_seen(self) -> int:
        return self._closed_rows + len(self._open)

    def add(
        self,
        time: int,
        node: int,
        kind: TraceKind,
        peer: int = 0,
        stream: int = 0,
        first: int = 0,
        last: int = 0,
        nbytes: int = 0,
        detail: str = "",
    ) -> None:
        code = self._detail_codes.get(detail)
        if code is None:
            code = self._detail_codes[detail] = len(self.details)
            self.details.append(detail)
        self._open.append((time, node, kind, peer, stream, first, last, nbytes, code))
        if len(self._open) >= _BLOCK_ROWS:
            self._close_block()

    def digest(self) -> str:
        """Of all rows so far, in order; asking does not change what is answered later."""
        self._close_block()
        complete = self._hash.copy()
        complete.update("\0".join(self.details).encode())
        return complete.hexdigest()

    def columns(self) -> dict[str, NDArray[np.uint64]]:
        self._close_block()
        if self._blocks:
            table = np.concatenate(self._blocks)
        else:
            table = np.empty((0, len(COLUMNS)), dtype=np.uint64)
        return {name: table[:, index] for index, name in enumerate(COLUMNS)}

    def to_arrow(self) -> pa.Table:
        """The kept rows with kinds and details spelled out."""
        import pyarrow as pa

        columns = self.columns()
        arrays: dict[str, Any] = {
            "time": pa.array(columns["time"].astype(np.int64)),
            "node": pa.array(np.ascontiguousarray(columns["node"])),
            "kind": _spelled(columns["kind"], [kind.name.lower() for kind in TraceKind]),
        }
        for name in ("peer", "stream", "first", "last", "bytes"):
            arrays[name] = pa.array(np.ascontiguousarray(columns[name]))
        arrays["detail"] = _spelled(columns["detail"], self.details)
        return pa.table(arrays)

    def _close_block(self) -> None:
        if not self._open:
            return
        # An array from the flattened rows is made in half the time of one from tuples.
        flat = array("Q", chain.from_iterable(self._open))
        block = np.frombuffer(flat, dtype=np.uint64).reshape(-1, len(COLUMNS))
        self._open.clear()
        self._hash.update(flat)
        room = max(0, self.max_rows - self._closed_rows)
        self._closed_rows += len(block)
        if not self.keep:
            return
        if len(block) > room:
            self.truncated = True
        if room:
            self._blocks.append(block[:room])


def _spelled(codes: NDArray[np.uint64], names: list[str]) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names))
