"""Small values that outlive a process: one file, replaced as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from crc32c import crc32c

from epicast.core import EpicastError

_MAGIC = b"EPISAVE1"
MAX_STATE_BYTES = 64 << 20
"""All values together; each change rewrites them all."""


class StateError(EpicastError):
    """Saved values cannot be read or written; the message says what to do."""


class State(msgspec.Struct, frozen=True):
    incarnation: int = 0
    """Of the last start."""
    saved: Mapping[str, bytes] = {}
    doubtful: tuple[int, ...] = ()
    """Streams that were found to lack something. Files that were cut do not say so again: this does
    until something is saved by whoever was told."""


class StateFile:
    """Blocking. `prepare` may be called in another thread; then `replace` or `discard`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "state"
        self._new = folder / "state.tmp"
        self._opened: int | None = None
        """The folder, between `prepare` and what follows it: descriptors may be used up then."""

    def load(self) -> State:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            content = self._path.read_bytes()
        except FileNotFoundError:
            return State()
        except OSError as error:
            raise StateError(
                f"{self._path}: {error.strerror}; make the folder readable and writable, or name "
                "another one"
            ) from error
        head = len(_MAGIC) + 4
        body = memoryview(content)[head:]
        checksum = int.from_bytes(content[len(_MAGIC) : head], "little")
        if content[: len(_MAGIC)] != _MAGIC or crc32c(body) != checksum:
            raise StateError(
                f"{self._path} is damaged; restore it from a copy, or remove it to start without "
                "saved values"
            )
        return msgspec.msgpack.decode(body, type=State)

    def prepare(self, state: State) -> None:
        """Have the new content on disk, where it does not count yet."""
        body = msgspec.msgpack.encode(state)
        if len(body) > MAX_STATE_BYTES:
            raise StateError(
                f"{len(body)} bytes of saved values, the limit is {MAX_STATE_BYTES}; save less"
            )
        self._close_folder()
        try:
            self._opened = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with open(self._new, "wb") as file:
                file.write(_MAGIC + crc32c(body).to_bytes(4, "little") + body)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self.discard()
            raise StateError(
                f"{self._new}: {error.strerror}; nothing was saved. Free some space or repair the "
                "folder"
            ) from error

    def replace(self) -> None:
        """Let what was prepared count."""
        assert self._opened is not None
        try:
            os.replace(self._new, self._path)
            os.fsync(self._opened)
        except OSError as error:
            raise StateError(
                f"{self._path}: {error.strerror}; check the disk and restart the node"
            ) from error
        finally:
            self._close_folder()

    def discard(self) -> None:
        self._close_folder()
        with suppress(OSError):
            self._new.unlink()

    def _close_folder(self) -> None:
        descriptor, self._opened = self._opened, None
        if descriptor is not None:
            os.close(descriptor)

    def write(self, state: State) -> None:
        self.prepare(state)
        self.replace()
