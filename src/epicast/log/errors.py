"""What can go wrong with a history. In every case what was stored before stays stored."""

from __future__ import annotations

from epicast.core import EpicastError


class LogError(EpicastError):
    """Base of all errors of histories."""


class OutOfOrder(LogError):
    """A batch does not continue the history where it ends."""

    def __init__(self, stream: int, expected: int, first: int) -> None:
        remedy = "fetch what is missing first" if first > expected else "slice off what is stored"
        super().__init__(
            f"stream {stream} continues at {expected}, the batch starts at {first}; {remedy}"
        )
        self.expected = expected
        self.first = first


class TooNew(LogError):
    """A segment of a later version of the format. It is left as it is."""

    def __init__(self, segment: str, version: int, known: int) -> None:
        super().__init__(
            f"{segment} was written in version {version} of the log format, this program reads up "
            f"to {known}; run the later version of Epicast that wrote it. Nothing was changed"
        )


class WrongStream(LogError):
    """A batch, or a directory, of another stream."""


class WrongEpoch(LogError):
    """A batch of another epoch."""

    def __init__(self, stream: int, epoch: int, got: int) -> None:
        remedy = "raise the epoch of this history first" if got > epoch else "it is out of date"
        super().__init__(f"stream {stream} is in epoch {epoch}, the batch in {got}; {remedy}")
        self.epoch = epoch
        self.got = got


class KeyTooLong(LogError):
    """A key exceeds the limit of the log."""


class PredicateError(LogError):
    """A predicate does not parse, or may not be used as it is.

    `position` counts characters of the text, or bytes of the encoding, from 0.
    """

    def __init__(self, position: int, expected: str, found: str) -> None:
        super().__init__(f"predicate, position {position}: expected {expected}, found {found}")
        self.position = position
        self.expected = expected
        self.found = found


class HistoryGone(LogError):
    """What was asked for was dropped by retention; `start` is the oldest number there is."""

    def __init__(self, stream: int, first: int, start: int) -> None:
        super().__init__(
            f"stream {stream}: {first} was dropped by retention; history starts at {start}"
        )
        self.first = first
        self.start = start


class DiskFull(LogError):
    """There is no room: nothing of what was to be appended was, everything older is there."""


class CorruptBatch(LogError):
    """Stored bytes are not what was written: the disk or something above it damaged them."""

    def __init__(self, segment: str, position: int, reason: str) -> None:
        super().__init__(
            f"{segment}, byte {position}: {reason}; reopen the history to truncate it there, then "
            "fetch the rest from another proxy"
        )
        self.segment = segment
        self.position = position
        self.reason = reason


class LogFailed(LogError):
    """The disk refused to sync or to undo: close the history and open it again."""


class DirectoryBusy(LogError):
    """Another process has the directory open."""
