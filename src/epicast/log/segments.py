"""All segments of a history, of which the last is being written, and what of them is on disk."""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch
from epicast.log.compaction import Rewrite
from epicast.log.config import LogConfig
from epicast.log.directory import Directory, File, MemoryFile
from epicast.log.errors import DiskFull, LogError, LogFailed
from epicast.log.records import framed_batches, framed_pieces
from epicast.log.recovery import Recovery
from epicast.log.rows import Rows, as_bytes
from epicast.log.segment import Header, OpenFiles, Segment, segment_name

NEW = "new.tmp"
ASIDE = ".aside"
"""Behind the name of a segment that was set aside: nothing reads it."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Staged(NamedTuple):
    """Records between two positions of a buffer, which is a file's memory, or `blob`."""

    buffer: NDArray[np.uint8]
    at: int
    stop: int
    blob: bytes | None


class SyncTicket:
    """Files to sync so that everything up to `end` is durable."""

    __slots__ = ("_directory", "_files", "end")

    def __init__(self, end: int, files: list[File], directory: Directory | None) -> None:
        self.end = end
        self._files = files
        self._directory = directory

    @property
    def files(self) -> int:
        return len(self._files)

    def run(self) -> None:
        """Blocks. May be called in any thread, while the history goes on being used."""
        for file in self._files:
            file.sync()
        if self._directory is not None:
            self._directory.sync()


class Segments:
    def __init__(self, directory: Directory, stream: int, config: LogConfig) -> None:
        self.directory = directory
        self._unsynced: dict[str, None] = {}
        """Names of files with data that may not be on disk, in the order they were written."""
        self.files = OpenFiles(directory, config.max_open_files, self._unsynced)
        self.all: list[Segment] = []
        self.fsyncs = 0
        self.started = 0
        """How many segments were begun here."""
        self._stream = stream
        self._config = config
        self._firsts: list[int] = []
        self._names_unsynced = False
        self._failed = ""

    @property
    def active(self) -> Segment:
        return self.all[-1]

    @property
    def sealed(self) -> list[Segment]:
        return self.all[:-1]

    @property
    def start(self) -> int:
        return self.all[0].first

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.all)

    def adopt(self, recovery: Recovery) -> None:
        self.all = recovery.segments
        self._firsts = [segment.first for segment in self.all]

    def find(self, seq: int) -> Segment:
        """The segment that covers a number the history has."""
        return self.all[bisect_right(self._firsts, seq) - 1]

    def open_segment(self, first: int, epoch: int) -> None:
        """Seal the active segment, if there is one, and start another (in its place if empty)."""
        self.check()
        header = Header(self._stream, epoch, first)
        with self._new_file(header):
            self.files.rename(NEW, segment_name(first))
        self._add(header)

    @contextmanager
    def _new_file(self, header: Header) -> Iterator[None]:
        """Write an empty segment under another name, which the caller changes: a failure leaves no
        trace."""
        try:
            file = self.directory.create(NEW, self._config.segment_bytes)
            self.files.put(NEW, file)
            file.append([header.encode()])
            yield
        except OSError as error:
            with suppress(OSError):
                self.files.close(NEW)
                self.directory.remove(NEW)
            raise self.refusal(error) from error

    def _add(self, header: Header) -> None:
        first, name = header.first, segment_name(header.first)
        if self.all and self.active.first == first:
            del self.all[-1], self._firsts[-1]
        self.all.append(Segment(self.files, name, header, self._config.index_interval_bytes))
        self._firsts.append(first)
        self._unsynced[name] = None
        self._names_unsynced = True
        self.started += 1

    def stage(self, batches: Sequence[EventBatch], epoch: int) -> Staged:
        """The batches as records that can be looked at, but are not part of history yet."""
        self.check()
        if not self.directory.volatile:
            blob = framed_batches(batches)
            return Staged(as_bytes(blob), 0, len(blob), blob)
        pieces = framed_pieces(batches, checked=False)
        file = self._roll(sum(map(len, pieces)), epoch).file
        assert isinstance(file, MemoryFile)
        end = file.stage(pieces)
        return Staged(file.readable, file.size, end, None)

    def write(self, staged: Staged, rows: Rows, epoch: int) -> None:
        """Append records, all of them or, if an error is raised, none."""
        size = staged.stop - staged.at
        if staged.blob is None:
            active = self.all[-1]
            active.file.size = staged.stop
        else:
            active = self._roll(size, epoch)
            self._write(active, staged.blob)
        self._unsynced[active.name] = None
        active.extend(rows, size)

    def _roll(self, size: int, epoch: int) -> Segment:
        """The active segment, which is a new one if the last has no room for so many bytes."""
        active = self.all[-1]
        if active.last >= active.first and active.size + size > self._config.segment_bytes:
            self.open_segment(active.last + 1, epoch)
        return self.all[-1]

    def _write(self, active: Segment, blob: bytes) -> None:
        try:
            file = active.file
        except OSError as error:
            raise self.refusal(error) from error
        try:
            file.append([blob])
        except OSError as error:
            try:
                file.truncate(active.size)
            except OSError as worse:
                self._fail(f"a write failed ({error}) and could not be undone ({worse})")
            raise self.refusal(error) from error

    def replace(self, rewrite: Rewrite) -> None:
        """Put the result of a rewrite, in memory and on disk, in the place of its sources."""
        first = self.all.index(rewrite.sources[0])
        count = len(rewrite.sources)
        try:
            rewrite.finish()
        except OSError as error:
            self._fail(f"compaction was interrupted: {error}")
            self.check()
        for source in rewrite.sources:
            self._unsynced.pop(source.name, None)
        self.all[first : first + count] = [rewrite.result]
        self._firsts = [segment.first for segment in self.all]

    def surplus(self, now: int) -> int:
        """How many of the oldest segments retention gives no room."""
        most_bytes, most_ns = self._config.retain_bytes, self._config.retain_ns
        total = self.size
        count = 0
        for segment in self.sealed:
            too_much = most_bytes is not None and total > most_bytes
            too_old = most_ns is not None and now - segment.newest_time > most_ns
            if not too_much and not too_old:
                break
            total -= segment.size
            count += 1
        return count

    def drop_oldest(self, count: int) -> None:
        for segment in self.all[:count]:  # oldest first: what is left is always without gaps
            self._remove(segment)
        del self.all[:count], self._firsts[:count]
        self.directory.sync()

    def start_over(self, first: int, epoch: int, aside: int = 0) -> list[str]:
        """Begin at `first`, without anything there was. Segments with events from `aside` on, if
        that is not 0, are renamed and not removed; the new names."""
        self.check()
        header = Header(self._stream, epoch, first)
        kept: list[str] = []
        with self._new_file(header):  # before anything is removed: this may be refused
            try:
                while self.all:  # newest first: what is left is always without gaps
                    kept += self._set_aside_or_remove(self.all[-1], aside)
                    del self.all[-1], self._firsts[-1]
                self.directory.sync()
                self.files.rename(NEW, segment_name(first))
            except OSError as error:
                self._fail(f"starting over was interrupted: {error}")
                self.check()
        self._add(header)
        return kept

    def _set_aside_or_remove(self, segment: Segment, aside: int) -> list[str]:
        if not 0 < aside <= segment.last or self.directory.volatile:
            self._remove(segment)
            return []
        name, taken, number = segment.name + ASIDE, set(self.directory.names()), 1
        while name in taken:
            number += 1
            name = f"{segment.name}{ASIDE}{number}"
        self.files.close(segment.name)
        self._unsynced.pop(segment.name, None)
        self.directory.rename(segment.name, name)
        return [name]

    def begin_sync(self, end: int) -> SyncTicket:
        self.check()
        if self.files.pinned:
            raise LogError("a sync is under way; finish it first")
        self.files.pinned = True
        try:
            files = [self.files.get(name) for name in self._unsynced]
        except OSError as error:
            self.files.pinned = False
            reason = f"stream {self._stream}: cannot sync: {error}; try again"
            raise LogError(reason) from error
        directory = self.directory if self._names_unsynced else None
        self._unsynced.clear()
        self._names_unsynced = False
        return SyncTicket(end, files, directory)

    def finish_sync(self, ticket: SyncTicket, error: OSError | None) -> None:
        """The ticket was run; with which error, if any."""
        self.files.pinned = False
        if error is not None:
            self._fail(f"the disk did not sync: {error}")
            self.check()
        self.fsyncs += ticket.files

    def check(self) -> None:
        if self._failed:
            raise LogFailed(
                f"stream {self._stream}: {self._failed}; close the history and open it again"
            )

    def close(self) -> None:
        self.files.close_all()
        self.directory.close()

    def _remove(self, segment: Segment) -> None:
        self.files.close(segment.name)
        self._unsynced.pop(segment.name, None)
        self.directory.remove(segment.name)

    def _fail(self, reason: str) -> None:
        # After a failed sync the system may have dropped what it could not write, and a later sync
        # would succeed without it: only reading everything again tells what there is.
        self._failed = reason

    def refusal(self, error: OSError) -> LogError:
        if error.errno in _NO_ROOM:
            return DiskFull(
                f"stream {self._stream}: {error.strerror}; nothing was appended and nothing older "
                "is lost. Free some space, or bound the history with retain_bytes"
            )
        return LogError(f"stream {self._stream}: cannot write: {error}; nothing was appended")
