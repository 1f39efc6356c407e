"""Rewriting segments that hold mostly collected events, and joining small ones.

A rewrite copies live events of consecutive segments, a window at a time, into a new file that
nobody sees; once that is on disk it takes the place of the first of its sources by renaming, and
the others are removed. If that is interrupted in between, recovery finds segments whose numbers
another one covers already, and removes them.

An event is left out because of a later one that collects it. So before the new file counts, the
history syncs: a crash must not keep the tombstone and lose the collector.

What is left out still tells how far its publisher was: if everything behind the new file is lost
one day, whoever numbers the stream must know it. So all records are looked at, live or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from epicast.log.config import LogConfig
from epicast.log.live import LiveSet
from epicast.log.merging import ROW_BYTES, merged
from epicast.log.publishers import Heard, runs_in
from epicast.log.records import framed
from epicast.log.rows import Rows, Scanner
from epicast.log.segment import HEADER_BYTES, Header, OpenFiles, Segment, segment_name

TEMPORARY = "rewrite.tmp"


class Rewrite:
    """One rewrite, from its first window to its last."""

    def __init__(
        self,
        files: OpenFiles,
        sources: Sequence[Segment],
        live: LiveSet,
    ) -> None:
        self.sources = list(sources)
        first, last = sources[0].first, sources[-1].last
        self._header = Header(sources[0].stream, sources[-1].epoch, first, last)
        self.result = Segment(files, TEMPORARY, self._header, sources[0].interval)
        self._files = files
        self._live = live
        self._heard = Heard()
        """Since the last batch that was written."""
        self._scanner = Scanner()
        self._source = 0
        self._at = HEADER_BYTES
        self._covered = first - 1

    @property
    def is_done(self) -> bool:
        return self._source == len(self.sources)

    def begin(self, size_hint: int) -> None:
        file = self._files.directory.create(TEMPORARY, size_hint + HEADER_BYTES)
        self._files.put(TEMPORARY, file)
        file.append([self._header.encode()])

    def step(self, max_bytes: int, window_bytes: int) -> int:
        """Rewrite what is live in about so many bytes of the sources; how many were read."""
        done = 0
        while done < max_bytes and not self.is_done:
            source = self.sources[self._source]
            if self._at >= source.size:
                self._leave(source)
                continue
            view = source.window(self._at, window_bytes)
            self._at += len(view)
            done += len(view)
            records = self._scanner.list_records(view, 0, len(view))
            first, last = records.first, records.last
            self._heard.take(runs_in(records), first, last)
            rows = self._scanner.pick(records, self._live.members(first, last))
            if rows.count:
                self._write(rows, last)
        return done

    def _leave(self, source: Segment) -> None:
        """It is done. Behind the last one, nothing is live up to its end."""
        if source is self.sources[-1] and self._covered < source.last:
            self._write(Rows.empty(), source.last)
        self._source += 1
        self._at = HEADER_BYTES

    def prepare(self) -> None:
        self._files.get(TEMPORARY).sync()

    def finish(self) -> None:
        """Take the place of the sources. Everything appended so far, and this, was synced."""
        directory = self._files.directory
        name = segment_name(self.result.first)
        self._files.rename(TEMPORARY, name)
        self.result.name = name
        directory.sync()
        for source in self.sources[1:]:
            self._files.close(source.name)
            directory.remove(source.name)
        directory.sync()

    def abandon(self) -> None:
        with suppress(OSError):  # recovery removes what is left
            self._files.close(TEMPORARY)
            self._files.directory.remove(TEMPORARY)

    def _write(self, rows: Rows, last: int) -> None:
        """A batch of what is live, which also covers what is not, here and just before."""
        first = self._covered + 1
        runs, self._heard = self._heard.runs(first, last), Heard()
        batch = merged(self.result.stream, self.result.epoch, first, last, rows, runs)
        record = framed(batch, checked=not self._files.directory.volatile)
        self._files.get(TEMPORARY).append([record])
        self.result.extend_by_one(first, last, rows, len(record))
        self._covered = last


def live_bytes(segment: Segment, live: int) -> int:
    """About how many bytes the live events of a segment would take by themselves."""
    return live * (segment.data_bytes // segment.rows + ROW_BYTES) if segment.rows else 0


def is_worth_rewriting(segment: Segment, live: int, compact_below: float) -> bool:
    if segment.rewritten:  # what else a rewrite could save, the last one did
        return live < compact_below * segment.rows
    return segment.rows > 0 and live_bytes(segment, live) < compact_below * segment.size


def choose(
    sealed: Sequence[Segment], live: LiveSet, config: LogConfig
) -> tuple[list[Segment], int]:
    """Consecutive segments to rewrite, none if that would not pay, and the bytes to expect."""
    sealed = sealed[: max(0, len(sealed) - config.compact_lag_segments)]
    if not sealed:
        return [], 0
    compact_below, segment_bytes = config.compact_below, config.segment_bytes
    bounds = np.array([*(s.first for s in sealed), sealed[-1].last + 1], dtype=np.uint64)
    counts: NDArray[np.int64] = live.count_between(bounds)
    sizes = [live_bytes(s, n) for s, n in zip(sealed, counts.tolist(), strict=True)]
    worth = [
        is_worth_rewriting(s, n, compact_below)
        for s, n in zip(sealed, counts.tolist(), strict=True)
    ]
    for start in range(len(sealed)):
        if worth[start]:
            stop, total = start + 1, sizes[start]
            while stop < len(sealed) and worth[stop] and total + sizes[stop] <= segment_bytes:
                total += sizes[stop]
                stop += 1
            return list(sealed[start:stop]), total
    for right in range(len(sealed) - 1, 0, -1):
        # Joining only what is about as large keeps the number of times an event is copied low.
        total = sizes[right - 1] + sizes[right]
        if total <= segment_bytes // 2 and sealed[right - 1].size <= 2 * sealed[right].size:
            return list(sealed[right - 1 : right + 1]), total
    return [], 0
