"""What a publisher was told is stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from epicast.core import EventBatch
from epicast.evidence.columns import numbers
from epicast.evidence.files import LogBounds, LogFiles
from epicast.evidence.hashing import content_sum
from epicast.evidence.schema import PUBLISHER, Facts, Kind

_FLUSH_ROWS = 4096


class PublisherLog:
    def __init__(
        self,
        root: Path,
        facts: Facts,
        bounds: LogBounds | None = None,
        wall_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._files = LogFiles(root, facts, bounds)
        self._wall_clock_ns = wall_clock_ns
        self._rows: list[tuple[int, ...]] = []

    @property
    def problem(self) -> str:
        return self._files.problem

    def sent(self, batch: EventBatch) -> tuple[int, int]:
        """What `acknowledged` wants to know of a publication, to be kept until then."""
        return self._wall_clock_ns(), content_sum(batch)

    def acknowledged(
        self,
        stream: int,
        epoch: int,
        publisher: int,
        first: int,
        count: int,
        below: int,
        sent: tuple[int, int],
    ) -> None:
        """`count` events from the publisher's own number `first` on are stored in the stream, none
        of them above `below`."""
        when, content = sent
        self._rows.append(
            (Kind.ACKED, stream, epoch, first, first + count - 1, publisher, below, when,
             self._wall_clock_ns(), content)
        )  # fmt: skip
        if len(self._rows) >= _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            fields = zip(columns, PUBLISHER, strict=True)
            self._files.write([numbers(column, field.type) for column, field in fields])
            self._rows = []

    def close(self) -> None:
        self.flush()
        self._files.close()
