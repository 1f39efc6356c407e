"""A disk that keeps exactly what it promised, and otherwise does its worst.

Until a file is synced, a crash may leave any beginning of what was written to it, followed by zeros
or rubbish up to any length; a truncation may be undone. Until the directory is synced, a crash may
undo the latest of the files created, renamed and removed, but not one without those after it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from random import Random

from epicast.core import Buffer
from epicast.log.directory import Directory, File


class PowerCut(BaseException):
    """The plug was pulled in the middle of an operation. Nobody handles this but `crash`."""


class _Content:
    """A file, whatever its name: what it holds now, and what it would hold after a crash."""

    __slots__ = ("durable", "now", "untouched")

    def __init__(self) -> None:
        self.now = bytearray()
        self.durable = bytearray()
        self.untouched = 0
        """How much of the durable bytes has not been truncated since the last sync."""

    def truncate(self, size: int) -> None:
        del self.now[size:]
        self.untouched = min(self.untouched, size)

    def sync(self) -> None:
        self.durable[self.untouched :] = self.now[self.untouched :]
        self.untouched = len(self.durable)

    def crash(self, rng: Random) -> None:
        if self.untouched < len(self.durable):  # the truncation, and what came after it, or neither
            self.now = rng.choice([self.now, self.durable])
        else:
            tail = self.now[self.untouched :]
            kept = rng.randint(0, len(tail))
            rest = rng.randint(0, len(tail) - kept)
            rubbish = rng.choice([b"", bytes(rest), rng.randbytes(rest)])
            self.now = self.durable + tail[:kept] + rubbish
        self.durable = bytearray(self.now)
        self.untouched = len(self.now)


class SimulatedFile(File):
    def __init__(self, disk: SimulatedDisk, content: _Content) -> None:
        self._disk = disk
        self._content = content

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self._content.now)

    def append(self, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        room = self._disk.room()
        if self._disk.is_cut():
            self._content.now += data[: min(room, self._disk.rng.randint(0, len(data)))]
            raise PowerCut
        self._content.now += data[:room]
        if room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def truncate(self, size: int) -> None:
        self._disk.operate()
        self._content.truncate(size)

    def read(self, at: int, size: int) -> memoryview:
        return memoryview(bytes(self._content.now[at : at + size]))

    def sync(self) -> None:
        self._disk.operate()
        if self._disk.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._content.sync()

    def close(self) -> None:
        pass


class SimulatedDisk(Directory):
    """The disk outlives the process that used it: after `crash`, open a new history on it."""

    def __init__(self, rng: Random, capacity_bytes: int = 1 << 62) -> None:
        self.rng = rng
        self.capacity_bytes = capacity_bytes
        self.failing = False
        """Syncs fail."""
        self.creates = True
        """Whether files can be made: not while the process has no descriptors left."""
        self.operations = 0
        self.cut_at = -1
        """The operation during which the power is cut; -1 is never."""
        self._names: dict[str, _Content] = {}
        self._history: list[dict[str, _Content]] = [{}]
        """What names there were: durable first, then after each change."""

    # -- what a test or a simulation does to it --------------------------------------------------

    def crash(self) -> None:
        """Lose what was not synced, or part of it."""
        self._names = dict(self.rng.choice(self._history))
        self._history = [dict(self._names)]
        for name in sorted(self._names):
            self._names[name].crash(self.rng)
        self.cut_at = -1
        self.failing = False

    def flip_bit(self, name: str, bit: int) -> None:
        """Change one bit, on the disk and for every reader."""
        content = self._names[name]
        content.now[bit // 8] ^= 1 << (bit % 8)
        content.durable[:] = content.now
        content.untouched = len(content.now)

    def cut_off(self, name: str, size: int) -> None:
        """Lose the end of a file, synced or not."""
        content = self._names[name]
        del content.now[size:]
        content.durable[:] = content.now
        content.untouched = len(content.now)

    def snapshot(self) -> dict[str, bytes]:
        """What is durable, file by file."""
        return {name: bytes(content.durable) for name, content in self._history[0].items()}

    def restore(self, snapshot: dict[str, bytes]) -> None:
        """Go back to a snapshot. Whoever has the directory open must open it anew."""
        self._names = {}
        for name, data in snapshot.items():
            content = self._names[name] = _Content()
            content.now[:] = content.durable[:] = data
            content.untouched = len(data)
        self._history = [dict(self._names)]

    def size(self, name: str) -> int:
        return len(self._names[name].now)

    # -- what files ask --------------------------------------------------------------------------

    def room(self) -> int:
        """Bytes that can still be written. Files without a name do not count."""
        return max(0, self.capacity_bytes - sum(len(c.now) for c in self._names.values()))

    def is_cut(self) -> bool:
        """Count an operation; whether the power goes during it."""
        self.operations += 1
        return self.operations - 1 == self.cut_at

    def operate(self) -> None:
        if self.is_cut():
            raise PowerCut

    # -- what a history does with it -------------------------------------------------------------

    def names(self) -> list[str]:
        return sorted(self._names)

    def create(self, name: str, size_hint: int) -> File:
        self.operate()
        if not self.creates:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)
        content = self._names[name] = _Content()
        self._changed()
        return SimulatedFile(self, content)

    def open(self, name: str) -> File:
        try:
            return SimulatedFile(self, self._names[name])
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from None

    def rename(self, old: str, new: str) -> None:
        self.operate()
        self._names[new] = self._names.pop(old)
        self._changed()

    def remove(self, name: str) -> None:
        self.operate()
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        del self._names[name]
        self._changed()

    def sync(self) -> None:
        self.operate()
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._history = [dict(self._names)]

    def close(self) -> None:
        pass

    def _changed(self) -> None:
        self._history.append(dict(self._names))
