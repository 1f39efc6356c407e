"""Paths made of names that a server or a manifest gave: none leads out of a backup's folder."""

from __future__ import annotations

import re
from pathlib import Path

from epicast.backup.errors import NameRefused
from epicast.deployment.naming import NAME_RULE, is_name

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHOWN = 100


def stream_name(text: str) -> str:
    """The name of a stream, if it can be a folder's, too; raises `NameRefused`."""
    if not is_name(text):
        raise NameRefused(
            f"a stream is called {_shown(text)}: {NAME_RULE}. No Epicast proxy gives such a "
            "name: the server is not one, or the backup was tampered with; do not use it"
        )
    return text


def path_inside(folder: Path, *names: str) -> Path:
    """Join names to a folder. Raises `NameRefused` unless each is a plain name, and none of them
    belongs to a symbolic link, which may lead anywhere."""
    path = folder
    for name in names:
        if _FILE_NAME.fullmatch(name) is None:
            raise NameRefused(
                f"{folder}: {_shown(name)} is not a plain file name; use another copy of the backup"
            )
        path = path / name
        _refuse_link(path)
    return path


def refuse_links(folder: Path) -> None:
    """Raise `NameRefused` if anything in a folder that will be written to is a symbolic link."""
    for child in folder.iterdir():
        _refuse_link(child)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise NameRefused(
            f"{path} is a symbolic link; a backup has none: put what it leads to in its place"
        )


def _shown(text: str) -> str:
    return repr(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")
