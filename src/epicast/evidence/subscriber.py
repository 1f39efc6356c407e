"""What subscriptions handed to the application."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch
from epicast.evidence.columns import numbers
from epicast.evidence.files import LogBounds, LogFiles
from epicast.evidence.hashing import event_sum, ranges_of
from epicast.evidence.schema import BLOCK_BITS, SUBSCRIBER, Facts, Kind

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
        self._table: NDArray[np.void] = np.empty(
            _FLUSH_ROWS, dtype=[(f.name, f.type.to_pandas_dtype()) for f in SUBSCRIBER]
        )
        self._rows = 0

    @property
    def problem(self) -> str:
        return self._files.problem

    def opened(self, subscription: int, stream: int, epoch: int, first: int) -> None:
        self._note(Kind.OPENED, subscription, stream, epoch, first, 0)

    def delivered(self, subscription: int, batch: EventBatch) -> None:
        now = self._wall_clock_ns()
        if (batch.first - 1) >> BLOCK_BITS == (batch.last - 1) >> BLOCK_BITS:
            digest = event_sum(batch)
            if digest is not None:
                self._add((Kind.EVENTS, batch.stream, batch.epoch, batch.first, batch.last,
                           subscription, now, digest))  # fmt: skip
                return
        ranges = ranges_of(batch)
        rows = np.empty(len(ranges.kinds), dtype=self._table.dtype)
        for name, values in (
            ("kind", ranges.kinds), ("stream", batch.stream), ("epoch", batch.epoch),
            ("first", ranges.firsts), ("last", ranges.lasts), ("subscription", subscription),
            ("time", now), ("digest", ranges.digests),
        ):  # fmt: skip
            rows[name] = values
        self._add_all(rows)

    def reset(self, subscription: int, stream: int, epoch: int, first: int) -> None:
        self._note(Kind.RESET, subscription, stream, epoch, first, 0)

    def closed(self, subscription: int, stream: int, epoch: int, last: int) -> None:
        self._note(Kind.CLOSED, subscription, stream, epoch, 0, last)

    def _note(
        self, kind: Kind, subscription: int, stream: int, epoch: int, first: int, last: int
    ) -> None:
        self._add((kind, stream, epoch, first, last, subscription, self._wall_clock_ns(), 0))

    def _add(self, row: tuple[int, ...]) -> None:
        if self._rows == _FLUSH_ROWS:
            self.flush()
        self._table[self._rows] = row
        self._rows += 1

    def _add_all(self, rows: NDArray[np.void]) -> None:
        while len(rows):
            if self._rows == _FLUSH_ROWS:
                self.flush()
            part = rows[: _FLUSH_ROWS - self._rows]
            self._table[self._rows : self._rows + len(part)] = part
            self._rows += len(part)
            rows = rows[len(part) :]

    def flush(self) -> None:
        if self._rows:
            rows, self._rows = self._table[: self._rows], 0
            self._files.write([numbers(rows[f.name], f.type) for f in SUBSCRIBER])

    def close(self) -> None:
        self.flush()
        self._files.close()
