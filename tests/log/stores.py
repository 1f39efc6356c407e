"""The stores every test of the contract runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from epicast.log import Directory, DiskDirectory, GcPolicy, History, LogConfig, MemoryDirectory
from epicast.log.simulated import SimulatedDisk

SMALL = LogConfig(segment_bytes=4096, window_bytes=4096, index_interval_bytes=256)
"""Everything happens after a few events: segments are rolled, windows end, indexes have gaps."""

Opened = Callable[..., History]


class Store:
    """A place for one history, which can be closed and opened again."""

    def __init__(self, make: Callable[[], Directory], *, keeps: bool) -> None:
        self._make = make
        self.keeps = keeps
        """Whether a history outlives its object."""

    def open(
        self, policy: GcPolicy | None = None, config: LogConfig = SMALL, epoch: int = 0
    ) -> History:
        return History(self._make(), 7, policy=policy, config=config, epoch=epoch)


@contextmanager
def store(kind: str) -> Iterator[Store]:
    if kind == "disk":
        with TemporaryDirectory() as path:
            yield Store(lambda: DiskDirectory(Path(path) / "stream"), keeps=True)
    elif kind == "simulated":
        disk = SimulatedDisk(Random(1))
        yield Store(lambda: disk, keeps=True)
    else:
        yield Store(MemoryDirectory, keeps=False)


KINDS = ["memory", "disk", "simulated"]
every_store = pytest.mark.parametrize("kind", KINDS)
