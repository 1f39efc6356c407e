"""Whether a backup is what was written, without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from epicast.backup.errors import BackupError
from epicast.backup.files import pieces
from epicast.backup.manifest import Manifest, load_manifest

Advance = Callable[[int], object]
"""Told how many bytes were looked at."""


def verify(
    folder: Path, streams: Sequence[str] = (), advance: Advance = lambda _: None
) -> Manifest:
    """Compare all checksums; `BackupDamaged` names the first file that is not sound."""
    manifest = load_manifest(folder)
    for name in chosen(manifest, folder, streams):
        entry = manifest.streams[name]
        for file in entry.files:
            for piece in pieces(folder, entry, file):
                advance(len(piece))
    return manifest


def chosen(manifest: Manifest, folder: Path, streams: Sequence[str]) -> list[str]:
    """All of the backup, or those that are wanted."""
    for name in streams:
        if name not in manifest.streams:
            there = ", ".join(manifest.streams) or "none"
            raise BackupError(f"{folder} has no stream {name!r}; there are: {there}")
    return list(streams) or list(manifest.streams)


def total_bytes(manifest: Manifest, streams: Sequence[str]) -> int:
    return sum(file.size for name in streams for file in manifest.streams[name].files)
