"""Writing logs, a batch at a time, so that a process that is killed leaves what it wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epicast_checker.format import FORMAT, SCHEMAS, SUFFIX, Collects, FormatError, Got, Role, Sent

Hashes = NDArray[np.uint64]
_FLUSH_ROWS = 4096
_FLUSH_BYTES = 4 << 20
_FACTORS = (np.uint64(0x9FB21C651E98DF25), np.uint64(0xD6E8FEB86659FD93))
_NONE = np.empty(0, dtype=np.uint64)


def hash_rows(rows: NDArray[np.uint8]) -> Hashes:
    """A 64-bit hash of each row of a matrix of bytes; 0 never comes out."""
    count, width = rows.shape
    words = -(-width // 8)
    padded = np.zeros((count, words * 8), dtype=np.uint8)
    padded[:, :width] = rows
    mixed = np.full(count, width + 1, dtype=np.uint64)
    for column in padded.view("<u8").T:
        mixed = (mixed ^ column) * _FACTORS[0]
        mixed ^= mixed >> np.uint64(32)
    mixed *= _FACTORS[1]
    mixed ^= mixed >> np.uint64(29)
    return np.maximum(mixed, np.uint64(1))


def hash_bytes(values: Sequence[bytes]) -> Hashes:
    """The same for values of any lengths."""
    lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
    found = np.empty(len(values), dtype=np.uint64)
    for length in np.unique(lengths).tolist():
        at = np.flatnonzero(lengths == length)
        joined = b"".join([values[index] for index in at.tolist()])
        found[at] = hash_rows(np.frombuffer(joined, np.uint8).reshape(len(at), length))
    return found


class _Log:
    role: Role

    def __init__(self, folder: Path, name: str, streams: Mapping[int, tuple[str, str]]) -> None:
        """`streams`: by id, the name and what is collected, one of `Collects`."""
        folder.mkdir(parents=True, exist_ok=True)
        number = 1
        while (path := folder / f"{self.role}-{name}-{number:06d}{SUFFIX}").exists():
            number += 1
        described = {
            str(stream): {"name": title, "collects": Collects(collects)}
            for stream, (title, collects) in streams.items()
        }
        schema = SCHEMAS[self.role].with_metadata(
            {"format": FORMAT, "role": self.role, "name": name, "streams": json.dumps(described)}
        )
        self.path = path
        self._schema = schema
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_stream(self._file, schema)
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0

    def _add(self, *row: Any) -> None:
        self._rows.append(row)
        self._bytes += len(row[-1]) + len(row[-2])
        if len(self._rows) >= _FLUSH_ROWS or self._bytes >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Have everything in the file."""
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [
                pa.array(column, type=field.type)
                for column, field in zip(columns, self._schema, strict=True)
            ]
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
            self._rows, self._bytes = [], 0
        self._file.flush()

    def close(self) -> None:
        self.flush()
        self._writer.close()
        self._file.close()


class PublisherLog(_Log):
    """Of one or several publishers in a process."""

    role = Role.PUBLISHER

    def sent(
        self, stream: int, publisher: int, first: int, time: int, contents: Hashes,
        keys: Hashes = _NONE,
    ) -> None:  # fmt: skip
        """Events with the publisher's numbers from `first` on; to be called before they are sent.

        No two events of a stream may have the same content: put the number into the payload.
        """
        self._events(Sent.SENT, stream, publisher, first, (0, 0), time, contents, keys)

    def acked(
        self, stream: int, publisher: int, first: int, time: int, contents: Hashes,
        keys: Hashes = _NONE, *, epoch: int, seq: int,
    ) -> None:  # fmt: skip
        self._events(Sent.ACKED, stream, publisher, first, (epoch, seq), time, contents, keys)

    def _events(
        self, kind: Sent, stream: int, publisher: int, first: int, place: tuple[int, int],
        time: int, contents: Hashes, keys: Hashes,
    ) -> None:  # fmt: skip
        _check(contents, keys)
        self._add(kind, stream, publisher, first, *place, time, contents.tobytes(), keys.tobytes())


class SubscriberLog(_Log):
    """Of one subscriber, which has at most one subscription to each stream at a time."""

    role = Role.SUBSCRIBER

    def opened(self, stream: int, epoch: int, first: int, time: int) -> None:
        """`epoch` 0: whichever there is."""
        self._add(Got.OPENED, stream, epoch, first, first, time, b"", b"")

    def events(
        self, stream: int, epoch: int, first: int, time: int, contents: Hashes,
        keys: Hashes = _NONE,
    ) -> None:  # fmt: skip
        """Consecutive numbers from `first` on."""
        _check(contents, keys)
        if len(contents):
            last = first + len(contents) - 1
            data = (contents.tobytes(), keys.tobytes())
            self._add(Got.DATA, stream, epoch, first, last, time, *data)

    def tombstones(self, stream: int, epoch: int, first: int, last: int, time: int) -> None:
        self._add(Got.TOMBSTONES, stream, epoch, first, last, time, b"", b"")

    def gc_events(self, stream: int, epoch: int, first: int, last: int, time: int) -> None:
        self._add(Got.GC, stream, epoch, first, last, time, b"", b"")

    def reset(self, stream: int, epoch: int, first: int, time: int) -> None:
        self._add(Got.RESET, stream, epoch, first, first, time, b"", b"")

    def left(self, stream: int, epoch: int, last: int, time: int) -> None:
        """It wants no more, though there may be more."""
        self._add(Got.LEFT, stream, epoch, last, last, time, b"", b"")

    def closed(self, stream: int, epoch: int, last: int, time: int) -> None:
        """Publishing is over, and everything had time to come."""
        self._add(Got.CLOSED, stream, epoch, last, last, time, b"", b"")


def _check(contents: Hashes, keys: Hashes) -> None:
    if len(keys) not in (0, len(contents)):
        raise FormatError(f"{len(contents)} events, {len(keys)} keys")
