"""What a history finds when it is opened: everything up to the first batch that is not sound."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
from msgspec import Struct

from epicast.log.closing import MARK, leave_mark, read_note, take_note
from epicast.log.compaction import TEMPORARY
from epicast.log.errors import CorruptBatch, WrongStream
from epicast.log.records import has_sound_record
from epicast.log.rows import Rows, Scanner
from epicast.log.segment import (
    HEADER_BYTES,
    SUFFIX,
    Header,
    OpenFiles,
    Segment,
    refuse_newer,
)

SET_ASIDE = ".lost"


class Truncation(Struct, frozen=True):
    """Where history had to be cut, and what became of the rest."""

    segment: str
    position: int
    """The byte from which on the segment was cut off."""
    reason: str
    lost_bytes: int
    """Bytes behind that point, in this segment and in those after it."""
    set_aside: tuple[str, ...]
    """Segments after this one, renamed, that could not be used without what was lost."""
    in_the_midst: bool = False
    """Sound batches or whole segments lie behind that point. So it is not the end of a write that
    was cut short, but damage to something older, which was on disk."""


class RecoveryReport(Struct, frozen=True):
    stream: int
    epoch: int
    start: int
    end: int
    segments: int
    """Those that were there; 0 for a history that is new."""
    batches: int
    events: int
    """Stored events, collected ones among them."""
    read_bytes: int
    leftovers: tuple[str, ...] = ()
    """Files of an interrupted compaction, removed."""
    truncation: Truncation | None = None
    closed_at: tuple[int, int] | None = None
    """Epoch and end noted when the history was closed; None if it was not closed in good order."""
    marked: bool = False
    """Opened before, it had lost something, and nobody has taken that in since."""

    @property
    def is_complete(self) -> bool:
        """Whether everything ever appended is surely there."""
        return self.closed_at == (self.epoch, self.end)


class Recovery:
    """Goes through the segments in order and hands over their rows.

    After it, the files are as if nothing else had ever been written.
    """

    def __init__(self, files: OpenFiles, stream: int, interval: int, window_bytes: int) -> None:
        self._files = files
        self._stream = stream
        self._interval = interval
        self._window_bytes = window_bytes
        self._scanner = Scanner()
        self._leftovers: list[str] = []
        self._truncation: Truncation | None = None
        self._closed_at: tuple[int, int] | None = None
        self._marked = False
        self._found = 0
        self._batches = 0
        self._read_bytes = 0
        self.segments: list[Segment] = []

    def run(self, take: Callable[[Rows], None]) -> None:
        names = self._files.directory.names()
        for name in names:  # before anything is changed
            if name.endswith(SUFFIX):
                refuse_newer(name, self._files.get(name).read(0, HEADER_BYTES))
        self._marked = MARK in names
        self._closed_at = read_note(self._files.directory)
        for name in names:
            if name.endswith(".tmp"):
                self._remove(name)
        waiting = sorted(name for name in names if name.endswith(SUFFIX))
        self._found = len(waiting)
        while waiting and self._truncation is None:
            name = waiting.pop(0)
            problem = self._read(name, take)
            if problem is not None:
                self._truncate(name, problem, waiting)
        if self._has_less_than_noted():
            leave_mark(self._files.directory)
        take_note(self._files.directory)
        self._files.directory.sync()

    def report(self, epoch: int, start: int, end: int) -> RecoveryReport:
        return RecoveryReport(
            self._stream, epoch, start, end, self._found, self._batches,
            sum(segment.rows for segment in self.segments), self._read_bytes,
            tuple(self._leftovers), self._truncation, self._closed_at, self._marked,
        )  # fmt: skip

    def _read(self, name: str, take: Callable[[Rows], None]) -> CorruptBatch | None:
        """Take in one segment; what is wrong with it, if anything is."""
        file = self._files.get(name)
        try:
            header = Header.decode(file.read(0, HEADER_BYTES))
        except ValueError as error:
            return CorruptBatch(name, 0, str(error))
        if header.stream != self._stream:
            raise WrongStream(
                f"{name} belongs to stream {header.stream}, not {self._stream}; "
                "give every stream a directory of its own"
            )
        end = self.segments[-1].last if self.segments else header.first - 1
        if header.first <= end:
            self._remove(name)  # its numbers are in the segment that was rewritten last
            return None
        if header.first != end + 1:
            return CorruptBatch(name, 0, f"it starts at {header.first}, expected {end + 1}")
        segment = Segment(self._files, name, header, self._interval)
        self.segments.append(segment)
        try:
            self._read_batches(segment, file.size, take)
            if segment.last < header.last:
                raise CorruptBatch(name, segment.size, f"it ends before {header.last}")
        except CorruptBatch as error:
            return error
        return None

    def _read_batches(self, segment: Segment, size: int, take: Callable[[Rows], None]) -> None:
        at = HEADER_BYTES
        while at < size:
            segment.size = size  # all of it may be read
            try:
                view = segment.window(at, self._window_bytes)
            finally:
                segment.size = at
            rows = self._continuing(segment, self._scanner.measure(view, 0, len(view)), view)
            stop = rows.stopped_at
            if stop:
                segment.extend(rows, stop)
                take(rows)
                self._batches += len(rows.record_table())
            if stop < len(view):
                raise CorruptBatch(segment.name, at + stop, "a batch makes no sense here")
            self._read_bytes += len(view)
            at += stop

    def _continuing(self, segment: Segment, rows: Rows, view: memoryview) -> Rows:
        """The rows, up to the first batch that does not continue where the one before ended."""
        table = rows.record_table()
        expected = np.append(segment.last, table[:-1, 3]) + 1
        breaks = np.flatnonzero(table[:, 2] != expected[: len(table)])
        if not len(breaks):
            return rows
        return self._scanner.measure(view, 0, int(table[breaks[0], 0]))

    def _truncate(self, name: str, problem: CorruptBatch, later: list[str]) -> None:
        """Cut the segment where the problem is, and put everything behind that out of the way."""
        file = self._files.get(name)
        lost = [file.size - problem.position]
        in_the_midst = bool(later) or has_sound_record(file.read(problem.position, file.size))
        if in_the_midst:
            leave_mark(self._files.directory)
        set_aside = []
        if problem.position:
            if self._keep_tail(name, problem.position):
                set_aside.append(name + SET_ASIDE)
            self._cut(self.segments[-1], problem.position)
        else:
            later = [name, *later]
            lost.clear()
        for other in later:
            file = self._files.get(other)
            lost.append(file.size)
            self._files.close(other)
            self._files.directory.rename(other, other + SET_ASIDE)
            set_aside.append(other + SET_ASIDE)
        self._truncation = Truncation(
            name, problem.position, problem.reason, sum(lost), tuple(set_aside), in_the_midst
        )

    def _has_less_than_noted(self) -> bool:
        if self._closed_at is None or not self.segments:
            return False  # who has nothing at all begins a new epoch anyway
        return self._closed_at != (self.segments[-1].epoch, self.segments[-1].last)

    def _keep_tail(self, name: str, position: int) -> bool:
        """Copy what is about to be cut off, for whoever wants to look at it; if there is room."""
        file = self._files.get(name)
        if position == file.size:
            return False
        with contextlib.suppress(OSError):
            copy = self._files.directory.create(name + SET_ASIDE, file.size - position)
            try:
                copy.append([file.read(position, file.size - position)])
            finally:
                copy.close()
            return True
        return False

    def _cut(self, segment: Segment, position: int) -> None:
        if not segment.rewritten:
            segment.file.truncate(position)
            segment.file.sync()
            return
        # Its header promises more than there is now: it gets another one.
        header = Header(segment.stream, segment.epoch, segment.first)
        file = self._files.directory.create(TEMPORARY, position)
        self._files.put(TEMPORARY, file)
        file.append([header.encode(), segment.file.read(HEADER_BYTES, position - HEADER_BYTES)])
        file.sync()
        self._files.rename(TEMPORARY, segment.name)
        segment.rewritten = False

    def _remove(self, name: str) -> None:
        self._files.close(name)
        self._files.directory.remove(name)
        self._leftovers.append(name)
