"""What an owner logged, as stretches: consecutive events of one stream, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epicast.evidence import Kind, even_hashes
from epicast.pipeline.audit.intervals import Ranges, numbers_in, split
from epicast.pipeline.audit.logs import column, value_lengths, values


@dataclass(slots=True)
class Stretch:
    stream: int
    epoch: int
    first: int
    contents: NDArray[np.uint64]
    times: NDArray[np.int64]
    keys: NDArray[np.uint8]
    key_bytes: NDArray[np.uint32]
    sizes: NDArray[np.uint32]

    def below(self, bound: int) -> Stretch:
        """Without the numbers from `bound` on, which is above its first."""
        count = bound - self.first
        if count >= len(self.contents):
            return self
        keys = self.keys[: int(self.key_bytes[:count].sum())]
        return Stretch(
            self.stream, self.epoch, self.first, self.contents[:count], self.times[:count], keys,
            self.key_bytes[:count], self.sizes[:count],
        )  # fmt: skip


def stretches(
    batches: list[Any], ranges: Ranges, block_bits: int, wanted: set[int] | None = None
) -> Iterator[Stretch]:
    """All EVENTS rows of some batches, each stretch within one block; of some streams only, if
    that is said."""
    events = _Events(batches, ranges)
    for stream, epoch in events.places():
        if wanted is None or stream in wanted:
            yield from events.of(stream, epoch, block_bits)


@dataclass(slots=True)
class Published:
    """Events of one publisher, within one block of its own numbers."""

    stream: int
    publisher: int
    block: int
    ranges: Ranges
    times: NDArray[np.int64]
    """One per range."""
    contents: NDArray[np.uint64]


def published(
    batches: list[Any], ranges: Ranges, wanted: set[tuple[int, int]], block_bits: int
) -> Iterator[Published]:
    """By stream and publisher, those wanted: events in the order of the publisher's numbers."""
    rows = column(batches, "kind") == Kind.EVENTS
    runs = values(batches, "runs").view(np.uint64).reshape(-1, 3)
    if not len(runs) or not wanted:
        return
    held = value_lengths(batches, "runs")[rows] // 24
    row = np.repeat(np.arange(len(held)), held)
    counts = (ranges.last - ranges.first + 1)[rows]
    run_counts = runs[:, 2].astype(np.int64)
    before = np.cumsum(run_counts) - run_counts
    first_run = np.cumsum(held) - held
    row_start = np.cumsum(counts) - counts
    # A row's runs tell of its events in order, so the first run begins with the row.
    place = before - before[first_run[row]] + row_start[row]
    streams = column(batches, "stream")[rows][row]
    times = column(batches, "time")[rows][row]
    contents = contents_of(batches, rows, counts)
    pairs = np.stack([streams, runs[:, 0]], axis=1)
    for stream, publisher in np.unique(pairs, axis=0).tolist():
        if (stream, publisher) not in wanted:
            continue
        wanted_pair = np.array([stream, publisher], dtype=np.uint64)
        mine = np.flatnonzero((pairs == wanted_pair).all(axis=1))
        first = runs[mine, 1].astype(np.int64)
        parts, index = split(Ranges(first, first + run_counts[mine] - 1), block_bits)
        starts = place[mine][index] + parts.first - first[index]
        blocks = (parts.first - 1) >> block_bits
        for block in np.unique(blocks).tolist():
            here = np.flatnonzero(blocks == block)
            chosen = Ranges(parts.first[here], parts.last[here])
            size = chosen.last - chosen.first
            events, _ = numbers_in(Ranges(starts[here], starts[here] + size))
            yield Published(
                stream, publisher, block, chosen, times[mine][index[here]], contents[events]
            )


class _Events:
    """One entry per event, in the order of the log."""

    def __init__(self, batches: list[Any], ranges: Ranges) -> None:
        wanted = column(batches, "kind") == Kind.EVENTS
        self._streams = column(batches, "stream")[wanted]
        self._epochs = column(batches, "epoch")[wanted]
        self._times = column(batches, "time")[wanted]
        self._ranges = Ranges(ranges.first[wanted], ranges.last[wanted])
        self._counts = self._ranges.last - self._ranges.first + 1
        self._starts = np.cumsum(self._counts) - self._counts
        # Rows of other kinds have empty columns, so that these need no choosing.
        self._contents = contents_of(batches, wanted, self._counts)
        self._keys = values(batches, "keys")
        self._key_bytes = self._numbers(batches, "key_bytes", wanted)
        self._sizes = self._numbers(batches, "sizes", wanted)
        self._key_ends = np.cumsum(self._key_bytes, dtype=np.int64)

    def _numbers(self, batches: list[Any], name: str, wanted: Any) -> NDArray[np.uint32]:
        """One per event, whether a row has one for each or one for all."""
        given = values(batches, name).view(np.uint32)
        held = value_lengths(batches, name)[wanted] // 4
        begins = np.cumsum(held) - held
        if bool((held == 1).all()):
            return np.repeat(given, self._counts)
        index = np.repeat(begins, self._counts)
        within = np.arange(len(index)) - np.repeat(self._starts, self._counts)
        found: NDArray[np.uint32] = given[index + within * np.repeat(held > 1, self._counts)]
        return found

    def places(self) -> list[tuple[int, int]]:
        if not len(self._streams):
            return []
        same = (self._streams == self._streams[0]) & (self._epochs == self._epochs[0])
        if same.all():
            return [(int(self._streams[0]), int(self._epochs[0]))]
        found = np.unique(np.stack([self._streams, self._epochs], axis=1), axis=0)
        return [(int(stream), int(epoch)) for stream, epoch in found]

    def of(self, stream: int, epoch: int, block_bits: int) -> Iterator[Stretch]:
        rows = np.flatnonzero((self._streams == stream) & (self._epochs == epoch))
        first, last = self._ranges.first[rows], self._ranges.last[rows]
        seqs, _ = numbers_in(Ranges(first, last))
        times = np.repeat(self._times[rows], self._counts[rows])
        if len(rows) == len(self._streams):
            place: Any = slice(None)
        else:
            place = seqs - np.repeat(first - self._starts[rows], self._counts[rows])
        contents, sizes = self._contents[place], self._sizes[place]
        key_bytes = self._key_bytes[place]
        key_ends = self._key_ends[place]
        apart = np.ones(len(seqs), dtype=np.bool_)
        # A stretch ends where numbers do not go on, where a block ends, and where the next event
        # is not the next in the log: there its keys are elsewhere.
        follows = seqs[1:] == seqs[:-1] + 1
        follows &= (seqs[1:] - 1) >> block_bits == (seqs[:-1] - 1) >> block_bits
        if len(rows) != len(self._streams):
            follows &= np.diff(place) == 1
        apart[1:] = ~follows
        edges = np.flatnonzero(apart)
        for begin, end in zip(edges, [*edges[1:], len(seqs)], strict=True):
            keys_from = int(key_ends[begin]) - int(key_bytes[begin])
            yield Stretch(
                stream, epoch, int(seqs[begin]), contents[begin:end], times[begin:end],
                self._keys[keys_from : int(key_ends[end - 1])], key_bytes[begin:end],
                sizes[begin:end],
            )  # fmt: skip


def contents_of(
    batches: list[Any], rows: NDArray[np.bool_], counts: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The content hashes of all events, `counts` of them in each of some rows. Those of events that
    are nothing but a key are not in the log: they are made from the keys."""
    given = values(batches, "contents").view(np.uint64)
    if len(given) == counts.sum():
        return given
    hashed = value_lengths(batches, "contents")[rows] > 0
    key_bytes = value_lengths(batches, "keys")[rows]
    # Rows one after the other that are alike are taken together.
    kinds = np.where(hashed, -1, key_bytes // counts)
    begins = np.flatnonzero(np.concatenate([[True], np.diff(kinds) != 0]))
    found = np.empty(int(counts.sum()), dtype=np.uint64)
    keys = values(batches, "keys")
    event, taken, key = 0, 0, 0
    for begin, end in zip(begins, [*begins[1:], len(kinds)], strict=True):
        number, size = int(counts[begin:end].sum()), int(key_bytes[begin:end].sum())
        here = found[event : event + number]
        if hashed[begin]:
            here[:] = given[taken : taken + number]
            taken += number
        else:
            even_hashes(keys[key : key + size], int(kinds[begin]), here)
        event += number
        key += size
    return found
