"""What a history leaves in its directory for whoever opens it next.

A note, when it was closed in good order: what is found later is all there was. It is taken away,
durably, before anything is appended. So a history that finds no note, and whose appends were not
synced, may have lost events that others have seen.

A mark, when it finds that it has lost some: before it cuts off what it cannot use, and before it
takes away the note, since neither tells of it again. The mark stays, whatever happens in between,
until whoever opened the history has noted the loss elsewhere.
"""

from __future__ import annotations

from contextlib import suppress
from struct import Struct

from crc32c import crc32c

from epicast.log.directory import Directory

NAME = "closed"
MARK = "lost"
_WRITING = "closed.tmp"
_FIELDS = Struct("<QQ")
_CHECKSUM = Struct("<I")


def leave_note(directory: Directory, epoch: int, end: int) -> None:
    """Everything is synced. A note that cannot be written is none."""
    fields = _FIELDS.pack(epoch, end)
    with suppress(OSError):
        file = directory.create(_WRITING, _FIELDS.size + _CHECKSUM.size)
        try:
            file.append([fields, _CHECKSUM.pack(crc32c(fields))])
            file.sync()
        finally:
            file.close()
        directory.rename(_WRITING, NAME)
        directory.sync()


def read_note(directory: Directory) -> tuple[int, int] | None:
    """The epoch and the end that were noted."""
    if NAME not in directory.names():
        return None
    file = directory.open(NAME)
    try:
        content = file.read(0, file.size)
    finally:
        file.close()
    if len(content) != _FIELDS.size + _CHECKSUM.size:
        return None
    fields = content[: _FIELDS.size]
    if _CHECKSUM.unpack_from(content, _FIELDS.size)[0] != crc32c(fields):
        return None
    epoch, end = _FIELDS.unpack(fields)
    return epoch, end


def take_note(directory: Directory) -> None:
    """Counts once the directory is synced."""
    if NAME in directory.names():
        directory.remove(NAME)


def leave_mark(directory: Directory) -> None:
    """Durable at once. Its being there is all it says."""
    if MARK not in directory.names():
        directory.create(MARK, 0).close()
    directory.sync()


def take_mark(directory: Directory) -> None:
    """If it cannot be removed, the loss is told again, which does no harm."""
    if MARK in directory.names():
        with suppress(OSError):
            directory.remove(MARK)
            directory.sync()
