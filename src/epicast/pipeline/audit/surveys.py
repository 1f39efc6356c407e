"""The first look at a log, alone: is it whole, which subscriptions are in it, what was collected.

What it finds is small and goes to everybody who judges blocks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from epicast.evidence import EvidenceError, Kind, Role
from epicast.evidence.schema import StreamFacts
from epicast.log.publishers import UNKNOWN_PUBLISHER
from epicast.pipeline.audit.intervals import Ranges, as_pairs, as_ranges, lengths, size
from epicast.pipeline.audit.logs import Chunk, Log, column, value_lengths, values
from epicast.pipeline.audit.tracking import Segment, Tracker

_LARGEST = 2**63 - 1


class GcNote(Struct, frozen=True):
    """A GC event as its owner logged it."""

    stream: int
    epoch: int
    seq: int
    time: int
    key: bytes
    payload: bytes


class Dropped(Struct, frozen=True):
    """Retention has taken everything up to `last`."""

    stream: int
    epoch: int
    last: int
    time: int


class Extent(Struct):
    """How much of a stream's epoch an owner's log has, or several logs."""

    stream: int
    epoch: int
    rows: int
    """Events that were read; what is in several logs counts as often."""
    known: list[tuple[int, int]]
    """First and last number of what there is without gaps, in order."""
    attributed: list[tuple[int, int]]
    """The same, of what is said who published it."""

    @property
    def first(self) -> int:
        return self.known[0][0]

    @property
    def last(self) -> int:
        return self.known[-1][1]

    @property
    def events(self) -> int:
        return sum(last - first + 1 for first, last in self.known)


def joined(one: Extent, other: Extent) -> Extent:
    """Of the same epoch of the same stream."""
    return Extent(
        one.stream,
        one.epoch,
        one.rows + other.rows,
        as_pairs(as_ranges(one.known + other.known)),
        as_pairs(as_ranges(one.attributed + other.attributed)),
    )


class FilePart(Struct):
    """The rows of one file, and where the subscriptions of its log were before them."""

    file: str
    size: int
    """In bytes."""
    start: int
    rows: int = 0
    tracker: bytes = b""


class Survey(Struct, kw_only=True):
    folder: str
    role: Role
    name: str
    region: str
    streams: dict[int, StreamFacts]
    rows: int
    truncated: str
    starts_late: bool
    clock_rows: int
    """Rows whose time is before that of an earlier row."""
    first_time: int
    last_time: int
    closed_at: int
    files: list[FilePart] = []
    segments: list[Segment] = []
    gc: list[GcNote] = []
    dropped: list[Dropped] = []
    extents: list[Extent] = []
    acked: list[tuple[int, int]] = []
    """Streams, each with a publisher."""


def survey(folder: Path, tolerance_ns: int, block_bits: int) -> Survey:
    log = Log(folder)
    clock = _Clock(tolerance_ns)
    tracker: Tracker | None = None
    owner = _OwnerNotes()
    acked: set[tuple[int, int]] = set()
    files: list[FilePart] = []
    for chunk in log.chunks():
        batches = chunk.batches
        if log.role == Role.SUBSCRIBER:
            tracker = tracker or Tracker(log.starts_late)
        if not files or files[-1].file != str(chunk.file):
            state = tracker.state() if tracker else b""
            size = chunk.file.stat().st_size
            files.append(FilePart(str(chunk.file), size, chunk.start, 0, state))
        files[-1].rows += sum(batch.num_rows for batch in batches)
        ranges = checked_ranges(log.role, chunk, block_bits)
        clock.look(column(batches, "acked" if log.role == Role.PUBLISHER else "time"))
        if tracker:
            tracker.take(batches)
        elif log.role == Role.OWNER:
            owner.take(batches, ranges)
        else:
            pairs = np.stack([column(batches, "stream"), column(batches, "publisher")], axis=1)
            acked.update(map(tuple, np.unique(pairs, axis=0).tolist()))
    return Survey(
        folder=str(folder), role=log.role, name=log.name, region=log.region, streams=log.streams,
        rows=log.rows, truncated=log.truncated, starts_late=log.starts_late,
        clock_rows=clock.backwards, first_time=clock.first, last_time=clock.newest or 0,
        closed_at=log.closed_at, files=files, segments=tracker.segments if tracker else [],
        gc=owner.gc, dropped=owner.dropped, extents=list(owner.extents.values()),
        acked=sorted(acked),
    )  # fmt: skip


def checked_ranges(role: Role, chunk: Chunk, block_bits: int) -> Ranges:
    """First and last of each row; `EvidenceError` where that is no range at all."""
    batches = chunk.batches
    first, last = column(batches, "first"), column(batches, "last")
    kinds = column(batches, "kind")
    if role == Role.SUBSCRIBER:
        wanted = (kinds == Kind.EVENTS) | (kinds == Kind.TOMBSTONES)
        wrong = wanted & (((first - 1) >> np.uint64(block_bits))
                          != ((last - 1) >> np.uint64(block_bits)))  # fmt: skip
    else:
        wanted = np.ones(len(kinds), dtype=bool)
        wrong = np.zeros(len(kinds), dtype=bool)
    wrong |= wanted & ((first < 1) | (last < first))
    wrong |= np.maximum(first, last) > _LARGEST
    if wrong.any():
        at = int(np.argmax(wrong))
        raise EvidenceError(
            f"{chunk.file}: row {chunk.start + at + 1} of the log has the range "
            f"{first[at]}..{last[at]}, which is none"
        )
    return Ranges(first.astype(np.int64), last.astype(np.int64))


class _Clock:
    """Times of a log's rows never go back by more than the tolerance."""

    def __init__(self, tolerance_ns: int) -> None:
        self._tolerance = tolerance_ns
        self.newest: int | None = None
        self.first = 0
        self.backwards = 0

    def look(self, times: Any) -> None:
        if self.newest is None:
            self.first = self.newest = int(times[0])
        newest = np.maximum.accumulate(np.concatenate([[self.newest], times]))
        self.backwards += int((times < newest[:-1] - self._tolerance).sum())
        self.newest = int(newest[-1])


class _OwnerNotes:
    def __init__(self) -> None:
        self.gc: list[GcNote] = []
        self.dropped: list[Dropped] = []
        self.extents: dict[tuple[int, int], Extent] = {}

    def take(self, batches: list[Any], ranges: Ranges) -> None:
        streams, epochs = column(batches, "stream"), column(batches, "epoch")
        kinds, times = column(batches, "kind"), column(batches, "time")
        for at in np.flatnonzero(kinds == Kind.DROPPED).tolist():
            self.dropped.append(
                Dropped(int(streams[at]), int(epochs[at]), int(ranges.last[at]), int(times[at]))
            )
        events = kinds == Kind.EVENTS
        places = np.stack([streams, epochs], axis=1)[events]
        stored = Ranges(ranges.first[events], ranges.last[events])
        attributed = _attributed(batches, events) == lengths(stored)
        for stream, epoch in np.unique(places, axis=0).tolist():
            here = (places == np.array([stream, epoch], np.uint64)).all(axis=1)
            chosen, named = (
                Ranges(stored.first[rows], stored.last[rows]) for rows in (here, here & attributed)
            )
            found = Extent(stream, epoch, size(chosen), as_pairs(chosen), as_pairs(named))
            before = self.extents.get((stream, epoch))
            self.extents[stream, epoch] = joined(before, found) if before else found
        for batch in batches:
            self._take_gc(batch)

    def _take_gc(self, batch: Any) -> None:
        offsets = np.frombuffer(batch.column("gc").buffers()[1], np.int32)
        offset = batch.column("gc").offset
        held = np.diff(offsets[offset : offset + batch.num_rows + 1])
        for at in np.flatnonzero(held).tolist():
            row = {name: batch.column(name)[at].as_py() for name in batch.schema.names
                   if name != "contents"}  # fmt: skip
            keys = _keys_of(row)
            for seq, payload in msgspec.msgpack.decode(row["gc"], type=list[tuple[int, bytes]]):
                key = keys(seq - row["first"])
                self.gc.append(GcNote(row["stream"], row["epoch"], seq, row["time"], key, payload))


def _attributed(batches: list[Any], rows: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Of how many events of each row it is said who published them."""
    runs = values(batches, "runs").view(np.uint64).reshape(-1, 3)
    held = value_lengths(batches, "runs")[rows] // 24
    counts = np.where(runs[:, 0] == UNKNOWN_PUBLISHER, 0, runs[:, 2].astype(np.int64))
    ends = np.concatenate([[0], np.cumsum(counts)])
    last = np.cumsum(held)
    named: NDArray[np.int64] = ends[last] - ends[last - held]
    return named


def _keys_of(row: dict[str, Any]) -> Any:
    lengths = np.frombuffer(row["key_bytes"], np.uint32).astype(np.int64)
    if len(lengths) == 1:
        lengths = np.repeat(lengths, row["last"] - row["first"] + 1)
    ends = np.cumsum(lengths)

    def key(index: int) -> bytes:
        return bytes(row["keys"][ends[index] - lengths[index] : ends[index]])

    return key
