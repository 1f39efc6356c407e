"""From a backup to the folder of a proxy that is stopped.

A history is put together beside the place it belongs to, opened there, and moved when it has proved
to be what the manifest says. An interruption leaves nothing that a proxy would look at.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from msgspec import Struct

from epicast.backup.errors import BackupDamaged, BackupError, RestoreRefused
from epicast.backup.files import copy
from epicast.backup.manifest import StreamEntry, sync_folder
from epicast.core.epochs import new_epoch
from epicast.deployment import Geoplex
from epicast.log import DirectoryBusy, DiskDirectory, History, LogConfig, LogError, policy_of


class Restored(Struct, frozen=True, kw_only=True):
    stream: str
    folder: str
    epoch: int
    epoch_before: int
    start: int
    end: int
    live_events: int
    publishers: int

    @property
    def epoch_raised(self) -> bool:
        return self.epoch > self.epoch_before


def restore_stream(
    folder: Path,
    name: str,
    entry: StreamEntry,
    geoplex: Geoplex,
    data: Path,
    *,
    raise_epoch: bool,
) -> Restored:
    """Put a stream's history into a data folder that has none of it."""
    stream = geoplex.stream(name)
    if stream.id != entry.id:
        raise RestoreRefused(f"{name} has another id in {geoplex.source_name} than in the backup")
    target = data / "streams" / name
    refuse_to_overwrite(target)
    temporary = target.with_name(f".{name}.restoring")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        for file in entry.files:
            copy(folder, entry, file, temporary)
        restored = _prepare(temporary, name, entry, geoplex, raise_epoch)
        _move(temporary, target)
    except OSError as error:
        raise BackupError(
            f"{temporary}: {error.strerror}; nothing was restored of {name}. Make room, or the "
            "folder writable"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return restored


def refuse_to_overwrite(target: Path) -> None:
    if not target.exists():
        return
    try:
        DiskDirectory(target).close()
    except DirectoryBusy as error:
        raise RestoreRefused(f"{target} is in use: stop the proxy first") from error
    kept = [child.name for child in target.iterdir() if child.name != "lock"]
    if kept:
        raise RestoreRefused(
            f"{target} holds a history already, which would be lost; move it away first if the "
            "backup is to take its place"
        )


def _prepare(
    temporary: Path, name: str, entry: StreamEntry, geoplex: Geoplex, raise_epoch: bool
) -> Restored:
    stream = geoplex.stream(name)
    config = LogConfig(max_key_bytes=stream.max_key_bytes)
    try:
        history = History(
            DiskDirectory(temporary), entry.id, policy=policy_of(stream), config=config,
            epoch=entry.epoch,
        )  # fmt: skip
    except LogError as error:
        raise BackupDamaged(f"the backup of {name} cannot be opened: {error}") from error
    try:
        found = (history.epoch, history.start, history.end)
        if history.recovery.truncation is not None or found != (
            entry.epoch, entry.start, entry.end,
        ):  # fmt: skip
            raise BackupDamaged(
                f"the backup of {name} is not what its manifest says: {entry.start} to "
                f"{entry.end} of epoch {entry.epoch} expected, {found[1]} to {found[2]} of "
                f"{found[0]} found; use another copy"
            )
        if raise_epoch:
            # By the clock, so that it is above any the stream had since the backup was made.
            history.raise_epoch(max(history.epoch + 1, new_epoch(time.time_ns())))
        return Restored(
            stream=name,
            folder=str(temporary.with_name(name)),
            epoch=history.epoch,
            epoch_before=entry.epoch,
            start=history.start,
            end=history.end,
            live_events=history.statistics().live_events,
            publishers=len(history.publishers()),
        )
    finally:
        history.close()  # leaves the note that nothing is missing


def _move(temporary: Path, target: Path) -> None:
    (temporary / "lock").unlink(missing_ok=True)
    sync_folder(temporary)
    if target.exists():
        (target / "lock").unlink(missing_ok=True)
        target.rmdir()
    temporary.rename(target)
    sync_folder(target.parent)
