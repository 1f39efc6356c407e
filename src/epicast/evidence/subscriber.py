"""What subscriptions handed to the application."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epicast.core import EventBatch
from epicast.evidence.files import LogBounds, LogFiles
from epicast.evidence.hashing import ranges_of
from epicast.evidence.schema import SUBSCRIBER, Facts, Kind

_FLUSH_ROWS = 8192


class SubscriberLog:
    def __init__(
        self,
        root: Path,
        facts: Facts,
        bounds: LogBounds | None = None,
        wall_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._files = LogFiles(root, facts, bounds)
        self._wall_clock_ns = wall_clock_ns
        self._columns: list[NDArray[np.generic]] = [
            np.empty(_FLUSH_ROWS, dtype=field.type.to_pandas_dtype()) for field in SUBSCRIBER
        ]
        self._rows = 0

    @property
    def problem(self) -> str:
        return self._files.problem

    def opened(self, subscription: int, stream: int, epoch: int, first: int) -> None:
        self._note(Kind.OPENED, subscription, stream, epoch, first, 0)

    def delivered(self, subscription: int, batch: EventBatch) -> None:
        ranges = ranges_of(batch)
        now = self._wall_clock_ns()
        for begin in range(0, len(ranges.kinds), _FLUSH_ROWS):
            firsts, lasts, kinds, digests = (
                column[begin : begin + _FLUSH_ROWS] for column in ranges
            )
            self._add(len(kinds), kinds, batch.stream, batch.epoch, firsts, lasts, subscription,
                      now, digests)  # fmt: skip

    def reset(self, subscription: int, stream: int, epoch: int, first: int) -> None:
        self._note(Kind.RESET, subscription, stream, epoch, first, 0)

    def closed(self, subscription: int, stream: int, epoch: int, last: int) -> None:
        self._note(Kind.CLOSED, subscription, stream, epoch, 0, last)

    def _note(
        self, kind: Kind, subscription: int, stream: int, epoch: int, first: int, last: int
    ) -> None:
        self._add(1, kind, stream, epoch, first, last, subscription, self._wall_clock_ns(), 0)

    def _add(self, rows: int, *values: object) -> None:
        if self._rows + rows > _FLUSH_ROWS:
            self.flush()
        begin, self._rows = self._rows, self._rows + rows
        for column, value in zip(self._columns, values, strict=True):
            column[begin : self._rows] = value  # type: ignore[assignment]

    def flush(self) -> None:
        if self._rows:
            # What is written is serialized at once, so that the columns can be filled again.
            self._files.write([pa.array(column[: self._rows]) for column in self._columns])
            self._rows = 0

    def close(self) -> None:
        self.flush()
        self._files.close()
