"""What a history needs of a file system, and two that offer it: a real one, and memory.

Everything fails with `OSError`. Data is durable once its file was synced; that a file exists, or
has a new name, is durable once the directory was synced. `epicast.log.simulated` is a third one,
which takes these words seriously.
"""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epicast.core import Buffer
from epicast.log.errors import DirectoryBusy

_LOCK = "lock"
_MOST_BUFFERS = 512
"""Buffers given to one system call; Linux takes 1,024."""
_SMALL = 1024
"""Bytes: buffers that are faster joined than copied one by one."""
_MOST_SPARE = 4
"""Removed files whose memory is kept for new ones."""


class File(ABC):
    """Grows at its end only."""

    size: int

    @abstractmethod
    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all of it. If that fails, part of it may have been written."""

    @abstractmethod
    def truncate(self, size: int) -> None: ...

    @abstractmethod
    def read(self, at: int, size: int) -> memoryview:
        """`size` bytes, or what there is up to the end. Good until the file is removed."""

    @abstractmethod
    def sync(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class Directory(ABC):
    """A place for the segments of one stream."""

    volatile = False
    """Gone with the process: syncing is free, and checking what was read is needless."""

    @abstractmethod
    def names(self) -> list[str]: ...

    @abstractmethod
    def create(self, name: str, size_hint: int) -> File:
        """An empty file, in place of one with that name if there is one."""

    @abstractmethod
    def open(self, name: str) -> File: ...

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """At once, in place of a file with the new name if there is one."""

    @abstractmethod
    def remove(self, name: str) -> None: ...

    @abstractmethod
    def sync(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class DiskFile(File):
    def __init__(self, path: Path, flags: int) -> None:
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self._descriptor).st_size

    def append(self, buffers: Sequence[Buffer]) -> None:
        for low in range(0, len(buffers), _MOST_BUFFERS):
            self._write(list(buffers[low : low + _MOST_BUFFERS]))

    def _write(self, buffers: list[Buffer]) -> None:
        left = sum(map(len, buffers))
        while left:
            written = os.pwritev(self._descriptor, buffers, self.size)
            self.size += written
            left -= written
            if left:  # a signal came, or the disk is nearly full: the next call will tell
                while written >= len(buffers[0]):
                    written -= len(buffers.pop(0))
                buffers[0] = memoryview(buffers[0])[written:]

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size

    def read(self, at: int, size: int) -> memoryview:
        return memoryview(os.pread(self._descriptor, size, at))

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class DiskDirectory(Directory):
    """A directory of the operating system, locked against other processes."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise DirectoryBusy(
                f"{path} is in use by another process; stop that one, or name another directory"
            ) from None

    def names(self) -> list[str]:
        return sorted(name for name in os.listdir(self.path) if name != _LOCK)

    def create(self, name: str, size_hint: int) -> File:
        return DiskFile(self.path / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def open(self, name: str) -> File:
        return DiskFile(self.path / name, os.O_RDWR)

    def rename(self, old: str, new: str) -> None:
        os.rename(self.path / old, self.path / new)

    def remove(self, name: str) -> None:
        os.unlink(self.path / name)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._lock)
        os.close(self._descriptor)


class MemoryFile(File):
    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self.size = 0
        self._use(memory)

    def _use(self, memory: NDArray[np.uint8]) -> None:
        self.memory = memory
        self.readable = memory.view()
        self.readable.flags.writeable = False
        self._writable = memory.data

    def stage(self, buffers: Sequence[Buffer]) -> int:
        """Put buffers behind the end, where they do not count yet; where they end."""
        end = self.size
        if len(buffers) > 1 and len(buffers[1]) < _SMALL:
            buffers = [b"".join(buffers)]
        for buffer in buffers:
            start, end = end, end + len(buffer)
            if end > len(self.memory):
                larger = new_memory(max(end, 2 * len(self.memory)))
                larger[:start] = self.memory[:start]
                self._use(larger)
            self._writable[start:end] = buffer
        return end

    def append(self, buffers: Sequence[Buffer]) -> None:
        self.size = self.stage(buffers)

    def truncate(self, size: int) -> None:
        self.size = size

    def read(self, at: int, size: int) -> memoryview:
        return self.readable.data[at : min(at + size, self.size)]

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


def new_memory(size: int) -> NDArray[np.uint8]:
    return np.empty(size, dtype=np.uint8)  # not even touched before it is used


class MemoryDirectory(Directory):
    """Lasts as long as the process.

    The memory of removed files is used again, because fresh memory costs more than what is written
    to it. So what was read from a file must not be kept beyond its removal.
    """

    volatile = True

    def __init__(self) -> None:
        self._files: dict[str, MemoryFile] = {}
        self._spare: list[NDArray[np.uint8]] = []

    def names(self) -> list[str]:
        return sorted(self._files)

    def create(self, name: str, size_hint: int) -> File:
        if name in self._files:
            self.remove(name)
        file = self._files[name] = MemoryFile(self._take_spare(size_hint))
        return file

    def _take_spare(self, size: int) -> NDArray[np.uint8]:
        for index, memory in enumerate(self._spare):
            if size <= len(memory) <= 2 * size:
                return self._spare.pop(index)
        return new_memory(size)

    def open(self, name: str) -> File:
        try:
            return self._files[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def rename(self, old: str, new: str) -> None:
        if new in self._files:
            self.remove(new)
        self._files[new] = self._files.pop(old)

    def remove(self, name: str) -> None:
        self._spare.append(self._files.pop(name).memory)
        del self._spare[:-_MOST_SPARE]

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass
