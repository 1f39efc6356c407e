"""Files of a backup, read a piece at a time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from epicast.backup.errors import BackupDamaged
from epicast.backup.manifest import FileEntry, StreamEntry
from epicast.backup.paths import path_inside

_PIECE_BYTES = 1 << 20


def entry_of(path: Path) -> FileEntry:
    """What the manifest says of a file as it is now."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return FileEntry(name=path.name, size=size, sha256=digest.hexdigest())


def pieces(folder: Path, stream: StreamEntry, entry: FileEntry) -> Iterator[bytes]:
    """The bytes of a file of a stream in the backup in `folder`; `BackupDamaged` at the end if they
    are not what was written, so nothing is to be done with them before."""
    path = path_inside(folder, *stream.folder.split("/"), entry.name)
    digest, left = hashlib.sha256(), entry.size
    try:
        with open(path, "rb") as file:
            while left and (piece := file.read(min(left, _PIECE_BYTES))):
                digest.update(piece)
                left -= len(piece)
                yield piece
    except FileNotFoundError:
        raise BackupDamaged(f"{path} is missing; use another copy of the backup") from None
    if left:
        raise BackupDamaged(
            f"{path} is cut off: {left} of {entry.size} bytes are missing; use another copy"
        )
    if digest.hexdigest() != entry.sha256:
        raise BackupDamaged(f"{path} is damaged: its checksum is wrong; use another copy")


def copy(folder: Path, stream: StreamEntry, entry: FileEntry, target: Path) -> None:
    with open(path_inside(target, entry.name), "wb") as file:
        _copy(folder, stream, entry, file)


def _copy(folder: Path, stream: StreamEntry, entry: FileEntry, file: BinaryIO) -> None:
    for piece in pieces(folder, stream, entry):
        file.write(piece)
    file.flush()
    os.fsync(file.fileno())
