"""How far everybody is: numbers in a file that all processes share.

What a process wrote there is there even if it was killed, and is what it goes on from when it is
started again. So it is written after the log, never before.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

_COLUMNS = 5


class Sending(Struct, frozen=True):
    """A publisher and a stream."""

    acked: int = 0
    """Events, of those up to the first that was not answered."""
    refused: int = 0
    seq: int = 0
    """The highest number of the stream that was acknowledged."""

    @property
    def number(self) -> int:
        """The number of the first event without an answer; refused events keep their numbers."""
        return 1 + self.acked + self.refused


class Following(Struct, frozen=True):
    """A subscriber and a stream."""

    epoch: int = 0
    seq: int = 0
    """Up to here everything is in the log."""
    events: int = 0
    tombstones: int = 0
    resets: int = 0


class Board:
    def __init__(self, file: Path, publishers: int, subscribers: int, streams: int) -> None:
        self._publishers = publishers
        self._streams = streams
        rows = (publishers + subscribers) * streams
        if not file.exists():
            np.zeros((rows, _COLUMNS), dtype=np.int64).tofile(file)
        self._cells: NDArray[np.int64] = np.memmap(
            file, dtype=np.int64, mode="r+", shape=(rows, _COLUMNS)
        )

    def sending(self, publisher: int, stream: int) -> Sending:
        return Sending(*self._get(publisher, stream, Sending))

    def note_sending(self, publisher: int, stream: int, at: Sending) -> None:
        self._put(publisher, stream, at)

    def following(self, subscriber: int, stream: int) -> Following:
        return Following(*self._get(self._publishers + subscriber, stream, Following))

    def note_following(self, subscriber: int, stream: int, at: Following) -> None:
        self._put(self._publishers + subscriber, stream, at)

    def acked(self) -> int:
        """Events, of all publishers."""
        return sum(each.acked for each in self._all_sending())

    def refused(self) -> int:
        return sum(each.refused for each in self._all_sending())

    def ends(self) -> list[int]:
        """Of each stream, the highest number that was acknowledged."""
        return [
            max(self.sending(publisher, stream).seq for publisher in range(self._publishers))
            for stream in range(self._streams)
        ]

    def _all_sending(self) -> list[Sending]:
        return [
            self.sending(publisher, stream)
            for publisher in range(self._publishers)
            for stream in range(self._streams)
        ]

    def _get(self, who: int, stream: int, kind: type[Struct]) -> list[int]:
        row: list[int] = self._cells[who * self._streams + stream].tolist()
        return row[: len(kind.__struct_fields__)]

    def _put(self, who: int, stream: int, at: Struct) -> None:
        values = [getattr(at, name) for name in at.__struct_fields__]
        self._cells[who * self._streams + stream, : len(values)] = values
