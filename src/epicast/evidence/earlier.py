"""Where the logs end that earlier processes of the same owner wrote.

A process that is killed between storing an event and writing it down leaves an event behind that
nobody has logged. Whoever takes over its history can make up for that, if it knows where to begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from epicast.evidence.schema import Kind, Role, folder_prefix

_MOST_RUNS = 4
_MOST_FILES = 2
"""Of each run. What has not been written to for longer was not being written to at the end."""


def ends_of_earlier_logs(root: Path, name: str) -> dict[int, int]:
    """By stream, the last number that the newest log of an owner has of it."""
    ends: dict[int, int] = {}
    for folder in islice(_earlier(root, name), _MOST_RUNS):
        for file in sorted(folder.glob("*.arrow"), reverse=True)[:_MOST_FILES]:
            found: dict[int, int] = {}
            for batch in _readable(file):
                found.update(_ends_in(batch))
            ends = found | ends
    return ends


def _earlier(root: Path, name: str) -> Iterator[Path]:
    """The folders of an owner's logs, the newest first. Names begin with the time, which is more
    exact than what file systems note."""
    prefix = folder_prefix(Role.OWNER, name)
    found = [each for each in root.glob(f"{prefix}*") if "-" not in each.name[len(prefix) :]]
    yield from sorted(
        found, key=lambda folder: (folder.stat().st_mtime_ns, folder.name), reverse=True
    )


def _readable(file: Path) -> Iterator[Any]:
    """Whatever is whole of a file whose end may be cut off."""
    try:
        with pa.memory_map(str(file)) as source:
            yield from pa.ipc.open_stream(source)
    except (pa.ArrowInvalid, OSError, EOFError):
        return


def _ends_in(batch: Any) -> dict[int, int]:
    kinds, streams, lasts = (batch.column(name).to_numpy() for name in ("kind", "stream", "last"))
    events = np.flatnonzero(kinds == Kind.EVENTS)[::-1]
    found, at = np.unique(streams[events], return_index=True)
    return dict(zip(found.tolist(), lasts[events][at].tolist(), strict=True))
