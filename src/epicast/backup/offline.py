"""A backup from the folder of a proxy that is stopped.

Opening a history repairs it and takes note of that. So what is opened is a copy: whether the proxy
was stopped in good order is for the proxy to see when it starts again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from epicast.backup.errors import BackupError
from epicast.backup.manifest import StreamEntry
from epicast.backup.writing import BackupFolder, StreamBackup
from epicast.deployment import Geoplex
from epicast.log import DirectoryBusy, DiskDirectory, History, LogConfig, LogError, policy_of
from epicast.protocols.sprinkler import stream_info

Advance = Callable[[str, int, int], object]
_READ_BYTES = 4 << 20


def backup_data_folder(
    geoplex: Geoplex,
    streams: Sequence[str],
    data: Path,
    folder: Path,
    advance: Advance = lambda *_: None,
) -> dict[str, StreamEntry]:
    """Add to the backup whatever the histories in `data` have that it does not."""
    backup = BackupFolder(folder, geoplex.name)
    found = {}
    for name in streams:
        info = stream_info(geoplex, geoplex.stream(name))
        source = data / "streams" / name
        if not any(source.glob("*.seg")):
            raise BackupError(f"{source} holds no history; is {data} a proxy's data folder?")
        temporary = folder / "copy.tmp"
        try:
            _copy(source, temporary)
            with backup.open(info) as copy:
                warning = _add(temporary, geoplex, name, copy, advance)
                found[name] = copy.finish(str(data), warning)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        backup.keep(name, found[name])
    return found


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    try:
        locked = DiskDirectory(source)
    except DirectoryBusy as error:
        raise BackupError(
            f"{source} is in use: its proxy runs. Back up through it (--from), or stop it"
        ) from error
    try:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("lock", "*.lost", "*.tmp"))
    finally:
        locked.close()


def _add(source: Path, geoplex: Geoplex, name: str, copy: StreamBackup, advance: Advance) -> str:
    """Why it may not be all there was; empty if it surely is."""
    stream = geoplex.stream(name)
    config = LogConfig(max_key_bytes=stream.max_key_bytes)
    try:
        history = History(DiskDirectory(source), stream.id, policy=policy_of(stream), config=config)
    except LogError as error:
        raise BackupError(f"the history of {name} cannot be opened: {error}") from error
    try:
        if (history.epoch, history.end) < copy.place:
            raise BackupError(
                f"the backup has {name} up to {copy.place[1]} of epoch {copy.place[0]}, which is "
                f"more than {history.end} of {history.epoch} in the folder; name another backup"
            )
        if history.epoch > copy.place[0] or history.start > copy.place[1] + 1:
            copy.restart(history.epoch, history.start - 1)
        while copy.place[1] < history.end:
            for batch in history.read(copy.place[1] + 1, _READ_BYTES):
                copy.take(batch)
            advance(name, copy.place[1], history.end)
        found = history.recovery
        if found.truncation is not None:
            return f"the history was cut at {found.end}: {found.truncation.reason}"
        if not found.is_complete and stream.ack != "disk":
            return "the proxy was not stopped in good order: its last events may be missing"
        return ""
    finally:
        history.close()
