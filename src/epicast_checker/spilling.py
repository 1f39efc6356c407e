"""Events on their way to where they are compared: split over files, so that each fits in memory.

Which file is decided by the key, or by the content of an event without one. So everything about an
event, and everything with its key, is in the same file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
Records = NDArray[np.void]

PUBLISHED = np.dtype(
    [("content", "<u8"), ("key", "<u8"), ("number", "<u8"), ("seq", "<u8"),
     ("epoch", "<u4"), ("publisher", "<u4"), ("stream", "<u2"), ("acked", "u1")]
)  # fmt: skip
DELIVERED = np.dtype(
    [("content", "<u8"), ("key", "<u8"), ("seq", "<u8"), ("epoch", "<u4"),
     ("subscriber", "<u4"), ("stream", "<u2")]
)  # fmt: skip
NUMBERED = np.dtype([("number", "<u8"), ("seq", "<u8"), ("publisher", "<u4"), ("stream", "<u2")])
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MAX_FILES = 256


class Spill:
    """Records of one kind in `files` files."""

    def __init__(self, folder: Path, name: str, kind: np.dtype[np.void], files: int) -> None:
        self._paths = [folder / f"{name}-{number:04d}" for number in range(files)]
        self._kind = kind

    def add(self, where: NDArray[np.uint16], records: Records) -> None:
        """`where`: the file of each record."""
        if not len(records):
            return
        order = np.argsort(where, kind="stable")
        records = records[order]
        bounds = np.searchsorted(where[order], np.arange(len(self._paths) + 1))
        for path, low, high in zip(self._paths, bounds[:-1], bounds[1:], strict=True):
            if low < high:
                with open(path, "ab") as file:
                    records[low:high].tofile(file)

    def load(self, number: int) -> Records:
        """All of one file, which is not needed again."""
        path = self._paths[number]
        if not path.exists():
            return np.empty(0, dtype=self._kind)
        records = np.fromfile(path, dtype=self._kind)
        path.unlink()
        return records


def files_of(contents: U64, keys: U64, files: int) -> NDArray[np.uint16]:
    by = np.where(keys != 0, keys, contents)
    return (((by * _GOLDEN) >> np.uint64(40)) % np.uint64(files)).astype(np.uint16)


def files_needed(events: int, events_per_file: int) -> int:
    return min(MAX_FILES, max(1, -(-events // events_per_file)))
