"""A backup being written: one history per stream, added to until it is as far as its source.

A stream that begins a new epoch begins anew, so its history does, too, in a folder of its own: a
*generation*. The one before is removed only when the manifest names the new one. The same is done
when most of what is stored was collected since.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from epicast.backup.errors import BackupError
from epicast.backup.files import entry_of
from epicast.backup.manifest import (
    FileEntry,
    Manifest,
    StreamEntry,
    find_manifest,
    save_manifest,
    sync_folder,
)
from epicast.backup.paths import path_inside, refuse_links, stream_name
from epicast.core import EventBatch
from epicast.log import DiskDirectory, History, LogConfig, policy_of
from epicast.protocols.sprinkler import StreamInfo

Place = tuple[int, int]
"""Epoch and number: everything up to there is had."""
_UNSYNCED_BYTES = 64 << 20
_READ_BYTES = 4 << 20
_SLIM_FROM_BYTES = 16 << 20
"""Less is not worth rewriting."""


class BackupFolder:
    """The folder of a backup, made if it is not there."""

    def __init__(self, path: Path, geoplex: str) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self.manifest = find_manifest(path) or Manifest(geoplex=geoplex)
            if not (path / "manifest.json").exists() and any(
                child.name not in ("streams", "manifest.json.tmp", "copy.tmp")
                for child in path.iterdir()
            ):
                raise BackupError(f"{path} holds something else; name an empty or a new folder")
        except OSError as error:
            raise BackupError(f"{path}: {error.strerror}; name another folder") from error
        if self.manifest.geoplex != geoplex:
            raise BackupError(
                f"{path} is a backup of the geoplex {self.manifest.geoplex!r}, not of {geoplex!r}; "
                "name another folder"
            )

    def open(self, info: StreamInfo) -> StreamBackup:
        return StreamBackup(self.path, info, self.manifest.streams.get(info.name))

    def keep(self, name: str, entry: StreamEntry) -> None:
        """Let what was written of a stream count, and what it replaces go."""
        self.manifest.streams = dict(sorted({**self.manifest.streams, name: entry}.items()))
        save_manifest(self.path, self.manifest)
        current = self.path / entry.folder
        for generation in current.parent.iterdir():
            if generation != current:
                shutil.rmtree(generation)


class StreamBackup:
    """A context manager. `take` what comes behind `place`, then `finish`."""

    def __init__(self, folder: Path, info: StreamInfo, before: StreamEntry | None) -> None:
        self._folder = folder
        self._info = info
        self._before = before
        if before is not None and before.id != info.id:
            raise BackupError(
                f"the backup's stream {info.name!r} has another id; name another folder"
            )
        self._home = path_inside(folder, "streams", stream_name(info.name))
        self._number = max(self._generations(), default=1)
        self._history = self._open(0)
        self.taken_events = 0

    def __enter__(self) -> StreamBackup:
        return self

    def __exit__(self, *_: object) -> None:
        self._history.close()

    def _generations(self) -> list[int]:
        if not self._home.is_dir():
            return []
        return [int(child.name) for child in self._home.iterdir() if child.name.isdecimal()]

    def _path(self, number: int) -> Path:
        return path_inside(self._home, f"{number:04d}")

    def _open(self, epoch: int) -> History:
        # What follows is checked when the manifest is written, and when it is read.
        config = LogConfig(sync="memory", max_key_bytes=self._info.max_key_bytes)
        path = self._path(self._number)
        if path.exists():
            refuse_links(path)
        directory = DiskDirectory(path)
        return History(
            directory, self._info.id, policy=policy_of(self._info), config=config, epoch=epoch
        )

    @property
    def place(self) -> Place:
        return self._history.epoch, self._history.end

    def take(self, batch: EventBatch) -> None:
        """What is had already is left out; of a later epoch everything is."""
        history = self._history
        if batch.epoch < history.epoch:
            return
        if batch.epoch > history.epoch:
            self.restart(batch.epoch, batch.first - 1)
            history = self._history
        if batch.last <= history.end:
            return
        if batch.first > history.end + 1:
            raise BackupError(
                f"{self._info.name}: {batch.first} came where {history.end + 1} was expected"
            )
        if batch.first <= history.end:
            batch = batch.slice(history.end + 1, batch.last)
        history.append(batch)
        self.taken_events += batch.rows
        if history.unsynced_bytes > _UNSYNCED_BYTES:
            history.sync()

    def restart(self, epoch: int, seq: int) -> None:
        """The stream goes on behind `seq` of `epoch`: a new epoch, or retention has dropped what
        is missing here."""
        history = self._history
        if epoch == history.epoch and history.end:
            if seq > history.end:
                gap = EventBatch.build(
                    self._info.id, history.end + 1, [], seqs=[], last=seq, epoch=epoch
                )
                history.append(gap)
            return
        if history.end:
            self._next_generation(epoch)
        self._history.reset(epoch, seq + 1)

    def _next_generation(self, epoch: int) -> None:
        self._history.close()
        self._number += 1
        shutil.rmtree(self._path(self._number), ignore_errors=True)
        self._history = self._open(epoch)

    def finish(self, source: str, warning: str = "") -> StreamEntry:
        """Have everything on disk; what the manifest is to say of it."""
        self._slim()
        history = self._history
        history.sync()
        statistics = history.statistics()
        path = self._path(self._number)
        sync_folder(path)
        sync_folder(path.parent)
        info = self._info
        return StreamEntry(
            id=info.id,
            owner=info.region,
            latest_per_key=info.latest_per_key,
            last_n=info.last_n,
            max_age_ns=info.max_age_ns,
            epoch=history.epoch,
            start=history.start,
            end=history.end,
            live_events=statistics.live_events,
            publishers=len(history.publishers()),
            folder=str(path.relative_to(self._folder)),
            files=self._files(path),
            source=source,
            taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
            warning=warning,
        )

    def _files(self, path: Path) -> list[FileEntry]:
        """Segments that have not grown since the last manifest are not read again."""
        known: dict[str, FileEntry] = {}
        if self._before is not None and self._folder / self._before.folder == path:
            known = {file.name: file for file in self._before.files}
        found = []
        for segment in sorted(path.glob("*.seg")):
            entry = known.get(segment.name)
            same = entry is not None and entry.size == segment.stat().st_size
            found.append(entry if entry is not None and same else entry_of(segment))
        return found

    def _slim(self) -> None:
        """Leave behind what was collected, once it is most of what is stored."""
        history = self._history
        statistics = history.statistics()
        if statistics.stored_bytes < max(_SLIM_FROM_BYTES, 2 * statistics.live_bytes):
            return
        epoch, start, end = history.epoch, history.start, history.end
        self._number += 1
        shutil.rmtree(self._path(self._number), ignore_errors=True)
        slim = self._open(epoch)
        try:
            slim.reset(epoch, start)
            while slim.end < end:
                slim.append_many(history.read(slim.end + 1, _READ_BYTES))
        except BaseException:
            slim.close()
            raise
        history.close()
        self._history = slim
