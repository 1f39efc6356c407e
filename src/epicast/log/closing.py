"""A note left by a history that was closed in good order: what is found later is all there was.

It is taken away, durably, before anything is appended. So a history that finds no note, and whose
appends were not synced, may have lost events that others have seen.
"""

from __future__ import annotations

from contextlib import suppress
from struct import Struct

from crc32c import crc32c

from epicast.log.directory import Directory

NAME = "closed"
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


def take_note(directory: Directory) -> tuple[int, int] | None:
    """The epoch and the end that were noted. The removal counts once the directory is synced."""
    if NAME not in directory.names():
        return None
    file = directory.open(NAME)
    try:
        content = file.read(0, file.size)
    finally:
        file.close()
    directory.remove(NAME)
    if len(content) != _FIELDS.size + _CHECKSUM.size:
        return None
    fields = content[: _FIELDS.size]
    if _CHECKSUM.unpack_from(content, _FIELDS.size)[0] != crc32c(fields):
        return None
    epoch, end = _FIELDS.unpack(fields)
    return epoch, end
