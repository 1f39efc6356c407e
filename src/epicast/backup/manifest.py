"""What belongs to a backup: one file, replaced as a whole when everything it names is on disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from epicast.backup.errors import BackupDamaged, BackupError
from epicast.backup.paths import path_inside, stream_name

FORMAT = "epicast-backup/1"
NAME = "manifest.json"


class FileEntry(Struct, frozen=True, kw_only=True):
    """The first `size` bytes of a file. It may have grown since: files of a log grow at their end,
    so that a backup which was interrupted is still as good as before."""

    name: str
    size: int
    sha256: str


class StreamEntry(Struct, frozen=True, kw_only=True):
    id: int
    owner: str
    """The region that numbers its events."""
    latest_per_key: bool
    last_n: int | None
    max_age_ns: int | None
    epoch: int
    start: int
    """The oldest number there is."""
    end: int
    """The newest."""
    live_events: int
    publishers: int
    """How many publishers' last numbers it knows."""
    folder: str
    """Where its files are, below the folder of the backup."""
    files: list[FileEntry]
    source: str
    """The proxy or folder it came from last."""
    taken_at: str
    """When, in UTC."""
    warning: str = ""
    """Why it may not be all there was."""


class Manifest(Struct, kw_only=True):
    format: str = FORMAT
    geoplex: str
    streams: dict[str, StreamEntry] = {}


class _Sealed(Struct):
    """The manifest, and a checksum of its text: a digit that has changed would go unnoticed."""

    sha256: str
    manifest: msgspec.Raw


def load_manifest(folder: Path) -> Manifest:
    """`BackupError` if there is none, `BackupDamaged` if it is not what was written, `NameRefused`
    if it names anything outside the folder: its checksum says nothing about who made it."""
    path = folder / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise BackupError(f"{folder} is no backup: there is no {NAME} in it") from None
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from error
    try:
        sealed = msgspec.json.decode(content, type=_Sealed)
        if _digest(bytes(sealed.manifest)) != sealed.sha256:
            raise BackupDamaged(f"{path} is damaged: its checksum is wrong; use another copy")
        manifest = msgspec.json.decode(sealed.manifest, type=Manifest)
    except msgspec.MsgspecError as error:
        raise BackupDamaged(f"{path} is damaged: {error}; use another copy") from error
    if manifest.format != FORMAT:
        raise BackupError(
            f"{path} has the format {manifest.format!r}, this program reads {FORMAT!r}; use a "
            "later version of Epicast"
        )
    for name, entry in manifest.streams.items():
        path_inside(folder, stream_name(name))
        for file in entry.files:
            path_inside(folder, *entry.folder.split("/"), file.name)
    return manifest


def find_manifest(folder: Path) -> Manifest | None:
    return load_manifest(folder) if (folder / NAME).exists() else None


def save_manifest(folder: Path, manifest: Manifest) -> None:
    """Everything it names is on disk already."""
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    sealed = _Sealed(_digest(text), msgspec.Raw(text))
    new = folder / f"{NAME}.tmp"
    new.unlink(missing_ok=True)  # it may be a link to something else
    with open(new, "wb") as file:
        file.write(msgspec.json.encode(sealed) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, folder / NAME)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
