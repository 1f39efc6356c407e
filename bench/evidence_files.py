"""Logs of a made-up stream, as large as one likes: what honest processes would have written, and
rows that can be tampered with before they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epicast.evidence import Facts, Kind, LogBounds, LogFiles, Role, event_hashes
from epicast.evidence.schema import SCHEMAS, StreamFacts

BEGIN = 1_700_000_000_000_000_000
MILLISECOND = 1_000_000
SECOND = 1000 * MILLISECOND
REGION = "us"
PUBLISHER = 77
Rows = dict[str, NDArray[Any]]
"""The columns of a log of numbers."""


@dataclass
class MadeStream:
    """Events 1, 2, …; those of one batch are stored at the same time."""

    id: int = 5
    name: str = "prices"
    events: int = 1000
    keys: int = 100
    batch: int = 10
    epoch: int = 1
    latest_per_key: bool = False
    last_n: int | None = None
    publisher: int = PUBLISHER
    seed: int = 1
    every_ns: int = MILLISECOND
    """Between batches."""
    gc: dict[int, bytes] = field(default_factory=dict)
    """Payloads of GC events, by number."""

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.seed)
        self.contents = random.integers(0, 2**64, self.events, dtype=np.uint64)
        self.key_numbers = random.integers(0, self.keys, self.events)
        self.stored = BEGIN + np.arange(self.events) // self.batch * self.every_ns

    @property
    def facts(self) -> StreamFacts:
        return StreamFacts(self.name, REGION, self.latest_per_key, self.last_n)

    @property
    def seqs(self) -> NDArray[np.uint64]:
        return np.arange(1, self.events + 1, dtype=np.uint64)

    def superseded(self) -> NDArray[np.bool_]:
        """Which events have a later one with the same key."""
        last = np.zeros(self.keys, dtype=np.int64)
        np.maximum.at(last, self.key_numbers, np.arange(self.events))
        return np.arange(self.events) < last[self.key_numbers]


def owner_batches(
    stream: MadeStream, rows: int = 1000, first: int = 1, last: int = 0, lag_ns: int = 0
) -> Iterator[list[pa.Array]]:
    """Columns of an owner's log, so many rows at once, from `first` to `last` (0: all), with times
    that are so much too late. Keys have eight bytes."""
    size, end = stream.batch, last or stream.events
    for low in range(first - 1, end, rows * size):
        high = min(end, low + rows * size)
        first = np.arange(low, high, size)
        last = np.minimum(first + size, high)
        count = len(first)
        ends = np.append(0, last - low)
        keys = stream.key_numbers[low:high].astype("<u8")
        runs = np.stack([np.full(count, stream.publisher), first + 1, last - first], axis=1)
        yield [
            pa.array(np.full(count, Kind.EVENTS, np.uint8)),
            *(pa.array(np.full(count, each, np.uint64)) for each in (stream.id, stream.epoch)),
            pa.array((first + 1).astype(np.uint64)), pa.array(last.astype(np.uint64)),
            pa.array(stream.stored[first] + lag_ns),
            _binary(stream.contents[low:high].tobytes(), 8 * ends),
            _binary(keys.tobytes(), 8 * ends),
            *(_binary(np.full(count, each, "<u4").tobytes(), 4 * np.arange(count + 1))
              for each in (8, 10)),
            pa.array([_gc(stream, a + 1, b) for a, b in zip(first.tolist(), last.tolist(),
                                                             strict=True)], pa.binary()),
            _binary(runs.astype("<u8").tobytes(), 24 * np.arange(count + 1)),
        ]  # fmt: skip


def _gc(stream: MadeStream, first: int, last: int) -> bytes:
    here = [(seq, payload) for seq, payload in stream.gc.items() if first <= seq <= last]
    return msgspec.msgpack.encode(here) if here else b""


def _binary(data: bytes, ends: NDArray[np.int64]) -> pa.Array:
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def acked_rows(stream: MadeStream) -> Rows:
    first = np.arange(0, stream.events, stream.batch)
    last = np.minimum(first + stream.batch, stream.events)
    stored = stream.stored[first]
    return {
        "kind": np.full(len(first), Kind.ACKED, np.uint8),
        "stream": np.full(len(first), stream.id, np.uint64),
        "epoch": np.full(len(first), stream.epoch, np.uint64),
        "first": (first + 1).astype(np.uint64),
        "last": last.astype(np.uint64),
        "publisher": np.full(len(first), PUBLISHER, np.uint64),
        "below": last.astype(np.uint64),
        "sent": stored - MILLISECOND // 2,
        "acked": stored + MILLISECOND // 2,
        "content": np.add.reduceat(stream.contents, first),
    }


def got_rows(
    stream: MadeStream, *, size: int = 7, bits: int = 20, first: int = 1, last: int | None = None,
    dead: NDArray[np.bool_] | None = None, lag_ns: int = 2 * MILLISECOND, number: int = 1,
    at_ns: int = 0,
) -> Rows:  # fmt: skip
    """What a subscription wrote that was opened before and closed long after: ranges of at most
    `size` events, tombstones for those that are `dead`, all handed out at `at_ns` if it is given.
    """
    end = last or stream.events
    seqs = np.arange(first, end + 1)
    dead = np.zeros(stream.events, np.bool_) if dead is None else dead
    here = dead[first - 1 : end]
    starts = ((seqs - first) % size == 0) | ((seqs - 1) % (1 << bits) == 0)
    starts[1:] |= here[1:] != here[:-1]
    begin = np.flatnonzero(starts)
    finish = np.append(begin[1:], len(seqs))
    hashes = event_hashes(stream.contents[first - 1 : end], seqs.astype(np.uint64))
    times = stream.stored[first - 1 : end][finish - 1] + lag_ns
    if at_ns:
        times = np.full(len(begin), at_ns)
    kinds = np.where(here[begin], Kind.TOMBSTONES, Kind.EVENTS)
    digests = np.where(here[begin], np.uint64(0), np.add.reduceat(hashes, begin))
    opened, closed = BEGIN - SECOND, int(max(times[-1], stream.stored[-1])) + 60 * SECOND
    return {
        "kind": np.concatenate([[Kind.OPENED], kinds, [Kind.CLOSED]]).astype(np.uint8),
        "stream": np.full(len(begin) + 2, stream.id, np.uint64),
        "epoch": np.full(len(begin) + 2, stream.epoch, np.uint64),
        "first": np.concatenate([[first], seqs[begin], [0]]).astype(np.uint64),
        "last": np.concatenate([[0], seqs[finish - 1], [end]]).astype(np.uint64),
        "subscription": np.full(len(begin) + 2, number, np.uint32),
        "time": np.concatenate([[opened], times, [closed]]),
        "digest": np.concatenate([np.zeros(1, np.uint64), digests, np.zeros(1, np.uint64)]),
    }


def write_log(
    root: Path, role: Role, name: str, streams: list[MadeStream], batches: Any, *,
    region: str = REGION, file_bytes: int = 64 << 20, close: bool = True, run: str = "r",
    closed_at: int = 0,
) -> Path:  # fmt: skip
    """With the writer that real processes use. `batches` are lists of columns."""
    facts = Facts(
        role=role, name=name, region=region, run=run,
        streams={stream.id: stream.facts for stream in streams},
    )  # fmt: skip
    files = LogFiles(root, facts, LogBounds(file_bytes, 1 << 50))
    for batch in batches:
        files.write(batch)
    if close:
        files.close(closed_at)
    else:
        files.abandon()
    return files.folder


def in_batches(role: Role, rows: Rows, size: int = 8192) -> Iterator[list[pa.Array]]:
    names = SCHEMAS[role].names
    for low in range(0, len(rows["kind"]), size):
        yield [pa.array(rows[name][low : low + size]) for name in names]


def chosen(rows: Rows, index: Any) -> Rows:
    """Some of the rows, in the order of the index."""
    return {name: column[index] for name, column in rows.items()}


def write_owner(root: Path, made: MadeStream, rows: int = 1000, **options: Any) -> Path:
    """`rows` are those written at once, here and below."""
    return write_log(root, Role.OWNER, REGION, [made], owner_batches(made, rows), **options)


def write_replica(
    root: Path, made: MadeStream, number: int, *, rows: int = 60, first: int = 1, last: int = 0,
    lag_ns: int = 0, **options: Any,
) -> Path:  # fmt: skip
    """What a replica of a chain logged: it may have come later, gone earlier, and heard late."""
    batches = owner_batches(made, rows, first, last, lag_ns)
    options.setdefault("closed_at", int(made.stored[-1]) + 60 * SECOND)
    return write_log(root, Role.OWNER, f"{REGION}/{number}", [made], batches, **options)


def write_publisher(
    root: Path, stream: MadeStream, acked: Rows, rows: int = 8192, **options: Any
) -> Path:
    batches = in_batches(Role.PUBLISHER, acked, rows)
    return write_log(root, Role.PUBLISHER, "app", [stream], batches, **options)


def write_subscriber(
    root: Path, stream: MadeStream, got: Rows, name: str = "reader", rows: int = 8192,
    **options: Any,
) -> Path:  # fmt: skip
    batches = in_batches(Role.SUBSCRIBER, got, rows)
    return write_log(root, Role.SUBSCRIBER, name, [stream], batches, **options)
