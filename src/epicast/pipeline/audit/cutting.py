"""Logs cut into pieces, each of one block of one stream: what is to be compared comes together.

A piece is a few numbers that say where it belongs, and packed arrays. Of a block, pieces sort so
that what the owner logged is there before what is judged by it. Blocks are of the stream's numbers
for what subscribers got, and of a publisher's own numbers for what it was told is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast.evidence import Kind, Role
from epicast.pipeline.audit.case import Case
from epicast.pipeline.audit.intervals import Ranges, split
from epicast.pipeline.audit.links import KeyEnds, link_across, link_stretch
from epicast.pipeline.audit.logs import Chunk, column, read_again
from epicast.pipeline.audit.owners import Published, Stretch, published, stretches
from epicast.pipeline.audit.packing import pack
from epicast.pipeline.audit.surveys import checked_ranges
from epicast.pipeline.audit.tracking import Skip, Tracker


class Space(IntEnum):
    """Whose numbers a block is of."""

    STREAM = 0
    PUBLISHER = 1


class Part(IntEnum):
    OWNED = 0
    LINKS = 1
    LATER = 2
    """When the event was stored that, by `last_n`, makes an event obsolete."""
    PUBLISHED = 3
    ACKED = 4
    GOT = 5


OWNED = (np.int64, np.uint64, np.uint32, np.int64, np.uint32, np.uint8, np.uint32, np.uint32)
"""First number, contents, times as runs: length and time, distance to the next event with the key
(0 if there is none in the stretch), keys, their lengths, sizes of payloads."""
LINKS = (np.int64, np.int64, np.int64)
LATER = (np.int64, np.int64, np.int64)
"""First and last number, and the time."""
PUBLISHED = (np.int64, np.int64, np.int64, np.uint64)
"""First and last of the publisher's numbers, the time, and the contents of all events."""
ACKED = (np.int64, np.int64, np.int64, np.int64, np.int64, np.uint64, np.int64, np.int64)
"""Row of the log, first and last number in the block, events of the publication before these and
in all, sum of content hashes, sent, acknowledged."""
GOT = (np.uint8, np.uint32, np.uint32, np.int64, np.uint64)
"""Kind, first number as distance from the start of the block, events, time, digest."""
LATE = 0x80
"""Added to the kind of rows that the tracker calls late."""


class Piece(NamedTuple):
    space: int
    stream: int
    place: int
    """The epoch, or the publisher."""
    block: int
    part: int
    who: int
    """The segment, for what a subscription got; for all else the log."""
    position: int
    payload: bytes


def cut(case: Case, index: int) -> Iterator[Piece]:
    """All pieces of one file."""
    number, part = case.parts[index]
    role = case.roles[number]
    tracker = Tracker.restored(part.tracker) if role == Role.SUBSCRIBER else None
    for chunk in read_again(Path(part.file), part.start, part.rows):
        if tracker:
            yield from _cut_subscriber(case, tracker, chunk, case.first_segment[number])
        elif role == Role.OWNER:
            yield from _cut_owner(case, number, chunk)
        else:
            yield from _cut_publisher(case, number, chunk)


def key_ends(case: Case, index: int) -> Iterator[tuple[int, int, KeyEnds]]:
    """Of a file of an owner: stream, epoch, and the keys of each stretch."""
    _, part = case.parts[index]
    bits = case.rules.block_bits
    for chunk in read_again(Path(part.file), part.start, part.rows):
        ranges = checked_ranges(Role.OWNER, chunk, bits)
        for stretch in stretches(chunk.batches, ranges, bits, case.keyed):
            keyless = case.keyless(stretch.stream, stretch.epoch)
            for epoch, bound in case.heirs(stretch.stream, stretch.epoch):
                if stretch.first < bound:
                    ends, _ = link_stretch(stretch.below(bound), keyless)
                    yield stretch.stream, epoch, ends


def linked(stream: int, epoch: int, ends: KeyEnds, bits: int) -> Iterator[Piece]:
    """What is known of some keys across all stretches of an epoch."""
    links = link_across(ends)
    for block, here in groups((links.seqs - 1) >> bits):
        payload = pack(*(column[here] for column in links))
        yield Piece(Space.STREAM, stream, epoch, block, Part.LINKS, -1, 0, payload)


def _cut_owner(case: Case, number: int, chunk: Chunk) -> Iterator[Piece]:
    bits = case.rules.block_bits
    ranges = checked_ranges(Role.OWNER, chunk, bits)
    for stretch in stretches(chunk.batches, ranges, bits):
        for epoch, bound in case.heirs(stretch.stream, stretch.epoch):
            if stretch.first < bound:
                yield from _cut_stretch(case, number, stretch.below(bound), epoch)
    for part in published(chunk.batches, ranges, case.acked, bits):
        yield _publication(number, part)


def _cut_stretch(case: Case, number: int, stretch: Stretch, epoch: int) -> Iterator[Piece]:
    stream, bits = stretch.stream, case.rules.block_bits
    block = (stretch.first - 1) >> bits
    payload = _owned(stretch, case)
    yield Piece(Space.STREAM, stream, epoch, block, Part.OWNED, number, stretch.first, payload)
    facts = case.streams.get(stream)
    if facts is None or facts.last_n is None:
        return
    for block, payload in _later(stretch, facts.last_n, bits):
        yield Piece(Space.STREAM, stream, epoch, block, Part.LATER, number, 0, payload)


def _owned(stretch: Stretch, case: Case) -> bytes:
    lengths, times = _runs(stretch.times)
    distance = np.empty(0, dtype=np.uint32)
    if stretch.stream in case.keyed:
        _, links = link_stretch(stretch, case.keyless(stretch.stream, stretch.epoch))
        distance = np.zeros(len(stretch.contents), dtype=np.uint32)
        distance[links.seqs - stretch.first] = links.nexts - links.seqs
    columns: tuple[NDArray[Any], ...] = stretch.keys, stretch.key_bytes, stretch.sizes
    if stretch.stream not in case.searched:
        columns = tuple(each[:0] for each in columns)
    return pack(np.array([stretch.first]), stretch.contents, lengths, times, distance, *columns)


def _runs(times: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    starts = np.flatnonzero(np.concatenate([[True], times[1:] != times[:-1]]))
    return np.diff(starts, append=len(times)).astype(np.uint32), times[starts]


def _later(stretch: Stretch, last_n: int, bits: int) -> Iterator[tuple[int, bytes]]:
    lengths, times = _runs(stretch.times)
    first = stretch.first - last_n + np.cumsum(lengths, dtype=np.int64) - lengths
    last = first + lengths - 1
    kept = last >= 1
    parts, index = split(Ranges(np.maximum(first, 1)[kept], last[kept]), bits)
    for block, here in groups((parts.first - 1) >> bits):
        yield block, pack(parts.first[here], parts.last[here], times[kept][index[here]])


def _publication(number: int, part: Published) -> Piece:
    payload = pack(part.ranges.first, part.ranges.last, part.times, part.contents)
    return Piece(
        Space.PUBLISHER, part.stream, part.publisher, part.block, Part.PUBLISHED, number,
        int(part.ranges.first[0]), payload,
    )  # fmt: skip


def _cut_publisher(case: Case, number: int, chunk: Chunk) -> Iterator[Piece]:
    bits = case.rules.block_bits
    ranges = checked_ranges(Role.PUBLISHER, chunk, bits)
    streams, publishers, contents, sent, acked = (
        column(chunk.batches, name) for name in ("stream", "publisher", "content", "sent", "acked")
    )
    parts, index = split(ranges, bits)
    whole = ranges.last - ranges.first + 1
    for stream, publisher in np.unique(np.stack([streams, publishers], axis=1), axis=0).tolist():
        mine = np.flatnonzero((streams[index] == stream) & (publishers[index] == publisher))
        for block, here in groups((parts.first[mine] - 1) >> bits):
            chosen = mine[here]
            row = index[chosen]
            payload = pack(
                chunk.start + row, parts.first[chosen], parts.last[chosen],
                parts.first[chosen] - ranges.first[row], whole[row], contents[row], sent[row],
                acked[row],
            )  # fmt: skip
            yield Piece(
                Space.PUBLISHER, stream, publisher, block, Part.ACKED, number,
                chunk.start + int(row[0]), payload,
            )  # fmt: skip


def _cut_subscriber(
    case: Case, tracker: Tracker, chunk: Chunk, first_segment: int
) -> Iterator[Piece]:
    bits = case.rules.block_bits
    for index, rows in _rows_by_segment(tracker, chunk, bits):
        segment = case.segments[first_segment + index]
        blocks = ((rows.firsts - 1) >> np.uint64(bits)).astype(np.int64)
        offsets = ((rows.firsts - 1) & np.uint64((1 << bits) - 1)).astype(np.uint32)
        counts = (rows.lasts - rows.firsts + 1).astype(np.uint32)
        columns = rows.kinds, offsets, counts, rows.times, rows.digests
        for block, here in groups(blocks):
            yield Piece(
                Space.STREAM, segment.stream, segment.epoch, block, Part.GOT,
                first_segment + index, chunk.start + int(rows.places[here[0]]),
                pack(*(column[here] for column in columns)),
            )  # fmt: skip


class _Rows(NamedTuple):
    """Of one segment, in the order of the log."""

    places: NDArray[np.int64]
    """In the chunk."""
    kinds: NDArray[np.uint8]
    firsts: NDArray[np.uint64]
    lasts: NDArray[np.uint64]
    times: NDArray[np.int64]
    digests: NDArray[np.uint64]


def _rows_by_segment(tracker: Tracker, chunk: Chunk, bits: int) -> Iterator[tuple[int, _Rows]]:
    tracked = tracker.take(chunk.batches)
    names = ("kind", "first", "last", "time", "digest")
    columns = [column(chunk.batches, name) for name in names]
    skipped: dict[int, list[Skip]] = {}
    for skip in tracked.skips:
        skipped.setdefault(skip.segment, []).append(skip)
    for index, chosen in groups(tracked.segments):
        places = tracked.rows[chosen]
        rows = _Rows(places, *(each[places] for each in columns))
        late = np.where(tracked.late[chosen], np.uint8(LATE), np.uint8(0))
        rows = rows._replace(kinds=rows.kinds | late)
        yield index, _with_skips(rows, skipped.pop(index, []), bits)
    for index, skips in skipped.items():
        nothing = _Rows(np.empty(0, np.int64), *(each[:0] for each in columns))
        yield index, _with_skips(nothing, skips, bits)


def _with_skips(rows: _Rows, skips: list[Skip], bits: int) -> _Rows:
    """Who was told that something is gone has got tombstones for it."""
    if not skips:
        return rows
    told = np.array([(skip.first, skip.last, skip.time, skip.row) for skip in skips])
    parts, index = split(Ranges(told[:, 0], told[:, 1]), bits)
    count = len(index)
    more = _Rows(
        told[index, 3], np.full(count, Kind.TOMBSTONES, np.uint8), parts.first.astype(np.uint64),
        parts.last.astype(np.uint64), told[index, 2], np.zeros(count, np.uint64),
    )  # fmt: skip
    order = np.argsort(np.concatenate([rows.places, more.places]), kind="stable")
    columns: list[Any] = [[*pair] for pair in zip(rows, more, strict=True)]
    return _Rows(*(np.concatenate(column)[order] for column in columns))


def groups(values: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each value and where it stands, in order."""
    if not len(values):
        return
    order = np.arange(len(values))
    if (values[1:] < values[:-1]).any():
        order = np.argsort(values, kind="stable")
        values = values[order]
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    for begin, end in zip([0, *edges], [*edges, len(values)], strict=True):
        yield int(values[begin]), order[begin:end]
