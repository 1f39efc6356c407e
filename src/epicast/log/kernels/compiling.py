"""How kernels are compiled: once per machine, kept in a cache that may live anywhere or nowhere.

numba keeps compiled code beside the source, which a read-only installation does not allow, and
looks at the age of one source file only, so that a change in a part inlined from another file goes
unnoticed. Here compiled code is kept under a digest of all kernel sources, in the first of these
places that can be written: NUMBA_CACHE_DIR, the directory a server named, `__pycache__` beside the
sources, the user's cache. Where none can, every process compiles anew: slower to start, otherwise
alike. The package may lie within an archive, as it does when Spark ships it to workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

_here = Path(__file__).parent
_named: list[Path] = []
_numba_config: Any = numba.config


def keep_compiled_code_in(directory: Path) -> None:
    """Prefer `directory`; for kernels that are imported from now on."""
    _named.insert(0, directory)
    cache_directory.cache_clear()


def compiled(function: Function) -> Function:
    """Compile at the first call, without the interpreter lock being held while it runs."""
    if not cache_directory():
        return cast(Function, numba.njit(function, nogil=True))
    before = _numba_config.CACHE_LOCATOR_CLASSES
    _numba_config.CACHE_LOCATOR_CLASSES = "epicast.log.kernels.locating.KernelLocator"
    try:
        return cast(Function, numba.njit(function, cache=True, nogil=True))
    finally:
        _numba_config.CACHE_LOCATOR_CLASSES = before


def inlined(function: Function) -> Function:
    """A part of kernels, compiled into each of them."""
    return cast(Function, numba.njit(function, inline="always"))


def _candidates() -> Iterator[Path]:
    if _numba_config.CACHE_DIR:
        yield Path(_numba_config.CACHE_DIR)
    yield from _named
    yield _here / "__pycache__"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    yield Path(home) / "epicast"


@cache
def cache_directory() -> str:
    """The first place that can be written, empty if there is none."""
    digest = _digest_of_sources()
    for candidate in _candidates():
        directory = candidate / f"kernels-{digest}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=directory):
                return str(directory)
        except OSError:
            continue
    return ""


def _digest_of_sources() -> str:
    total = blake2b(numba.__version__.encode(), digest_size=8)
    folder = _here if _here.is_dir() else files(__package__)
    sources = {each.name: each for each in folder.iterdir() if each.name.endswith(".py")}
    for name in sorted(sources):
        total.update(sources[name].read_bytes())
    return total.hexdigest()
