"""Where numba keeps a compiled kernel, and how it knows that the kernel has changed since."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba.core.caching import _CacheLocator

from epicast.log.kernels import compiling


class KernelLocator(_CacheLocator):
    """numba's own keep the code of a package within an archive, as Spark ships it, under the path
    of that archive, which is another each time, and fail where the user's cache is read-only."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._path = os.path.join(compiling.cache_directory(), function.__module__)
        self._stamp = blake2b(_source(function, file), digest_size=16).digest()
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> KernelLocator:
        return cls(py_func, py_file)

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> bytes:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)


def _source(function: Callable[..., Any], file: str) -> bytes:
    """The whole file, wherever it lies: parts of a kernel may be beside it."""
    try:
        return Path(file).read_bytes()
    except OSError:
        data: bytes = function.__globals__["__loader__"].get_data(file)
        return data
