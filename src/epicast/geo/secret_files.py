"""Writing files that only their owner may read, and never over something that is there."""

from __future__ import annotations

import os
from pathlib import Path

from epicast.core import EpicastError

SECRET = 0o600
PUBLIC = 0o644


class FileNotWritten(EpicastError):
    """A file is there already, or cannot be written; the message says what to do."""


def write_new(path: Path, content: bytes, mode: int = SECRET, *, replace: bool = False) -> None:
    """With `replace`, in one go over what is there."""
    target = path.with_name(f".{path.name}.new") if replace else path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if replace:
            target.unlink(missing_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if replace:
            target.replace(path)
    except FileExistsError:
        raise already_there(path) from None
    except OSError as error:
        raise FileNotWritten(f"{path}: cannot be written: {error.strerror}") from None


def already_there(path: Path) -> FileNotWritten:
    return FileNotWritten(f"{path} is there already: use it, move it away, or say --replace")
