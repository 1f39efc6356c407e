"""A workload published into a live stream, at a rate of its own or a chosen one.

The publisher's number of an event is that of its row. A position is saved now and then; whoever
goes on from there sends some events again, which the owner recognises by those numbers. So every
row is stored once, however often a replay is interrupted.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from epicast.client import sync
from epicast.experiments.files import replace_text
from epicast.pipeline.workloads.chunks import Columns
from epicast.pipeline.workloads.errors import WorkloadError
from epicast.pipeline.workloads.event_columns import KEY_BYTES, encode_rows
from epicast.pipeline.workloads.files import chunk_path, read_batches
from epicast.pipeline.workloads.manifest import Workload, load_workload
from epicast.pipeline.workloads.spec import NS_PER_S

_ROWS_AT_ONCE = 1 << 16
_BYTES_AT_ONCE = 16 << 20
_SAVE_EVERY_S = 1.0
_MOST_LATE_S = 0.05
"""What is due within this is published together."""


class Pace(Struct, frozen=True):
    """When rows are due: so many per second, or by their own times; else at once."""

    rate: float | None = None
    speed: float | None = None

    def due(self, first: int, times: NDArray[np.int64], start_time: int) -> NDArray[np.float64]:
        """Seconds since the replay began; `first` counts the rows before, `start_time` is that of
        the first of them."""
        if self.rate is not None:
            return (first + np.arange(len(times))) / self.rate
        if self.speed is not None:
            return (times - start_time) / (NS_PER_S * self.speed)
        return np.zeros(len(times))


class Position(Struct, frozen=True):
    """What is saved of a replay."""

    digest: str
    stream: str
    publisher: int
    rows: int


class Outcome(Struct):
    rows: int = 0
    """Published by this run."""
    position: int = 0
    """Published in all."""
    last: int = 0
    """The stream's number of the last one."""
    seconds: float = 0.0
    lag: float = 0.0
    """Seconds behind the schedule, at the end."""
    most_lag: float = 0.0


class Replay:
    def __init__(
        self, directory: Path, stream: str, address: str, pace: Pace, state: Path | None = None
    ) -> None:
        self.directory = directory
        self.workload = load_workload(directory)
        self.outcome = Outcome()
        self._address = address
        self._pace = pace
        self._file = state or directory / f"replay-{stream}.json"
        self._position = self._load(stream)
        self.outcome.position = self._position.rows

    def run(self, limit: int | None = None, told: Callable[[int], object] = lambda rows: None
    ) -> Outcome:  # fmt: skip
        """Publish up to row `limit`; `told` hears of rows as they are acknowledged. Whoever
        interrupts it can run it again."""
        end = min(limit or self.workload.rows, self.workload.rows)
        self._save()  # the publisher's id is known before anything is sent under it
        with sync.connect(self._address, agent=False, publisher=self._position.publisher) as node:
            stream = node.stream(self._position.stream, first_sequence=self._position.rows + 1)
            if stream.info.max_key_bytes < KEY_BYTES:
                raise WorkloadError(
                    f"{stream.name!r} takes keys of {stream.info.max_key_bytes} bytes, and those "
                    f"of a workload have {KEY_BYTES}: choose another stream, or raise its max_key"
                )
            try:
                self._publish(stream, end, told)
            finally:
                self._save()
        return self.outcome

    def _publish(self, stream: sync.Stream, end: int, told: Callable[[int], object]) -> None:
        began = saved = time.monotonic()
        before, start_time = self._position.rows, None
        for columns in rows_after(self.directory, self.workload, before, end):
            if start_time is None:
                start_time = columns.time.item(0)
            due = self._pace.due(self._position.rows - before, columns.time, start_time)
            at = 0
            while at < len(due):
                now = time.monotonic() - began
                if due[at] > now:
                    time.sleep(due[at] - now)
                    continue
                upto = at + self._together(columns.size[at:], due[at:], now)
                batch = encode_rows(stream.info.id, 1, columns.part(at, upto))
                self.outcome.last = stream.publish_many(batch)
                done, at = upto - at, upto
                self._note(done, time.monotonic() - began, float(due[at - 1]))
                told(done)
                if time.monotonic() - saved > _SAVE_EVERY_S:
                    saved = time.monotonic()
                    self._save()

    def _together(self, sizes: NDArray[np.int32], due: NDArray[np.float64], now: float) -> int:
        """How many rows go out at once: those due soon, as long as they are not too large."""
        soon = int(np.searchsorted(due, now + _MOST_LATE_S, side="right"))
        if self._pace == Pace():
            soon = len(due)
        fitting = int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), _BYTES_AT_ONCE))
        return max(1, min(soon, fitting, len(due)))

    def _note(self, rows: int, now: float, due: float) -> None:
        outcome = self.outcome
        outcome.rows += rows
        outcome.position += rows
        outcome.seconds = now
        if self._pace != Pace():
            outcome.lag = max(0.0, now - due)
            outcome.most_lag = max(outcome.most_lag, outcome.lag)
        self._position = msgspec.structs.replace(self._position, rows=outcome.position)

    def _save(self) -> None:
        replace_text(self._file, msgspec.json.format(msgspec.json.encode(self._position)).decode())

    def _load(self, stream: str) -> Position:
        try:
            found = msgspec.json.decode(self._file.read_bytes(), type=Position)
        except FileNotFoundError:
            return Position(self.workload.digest, stream, secrets.randbits(63) + 1, 0)
        except msgspec.MsgspecError as error:
            raise WorkloadError(f"{self._file} is no position of a replay: {error}") from None
        if (found.digest, found.stream) != (self.workload.digest, stream):
            raise WorkloadError(
                f"{self._file} is the position of another replay, into {found.stream!r}; remove "
                "it, or name another file with --state"
            )
        return found


def rows_after(directory: Path, workload: Workload, before: int, end: int) -> Iterator[Columns]:
    """The rows before+1..end, some at a time."""
    for number, (start, facts) in enumerate(zip(workload.starts(), workload.chunks, strict=True)):
        if start + facts.rows <= before or start >= end:
            continue
        at = start
        for columns in read_batches(chunk_path(directory, number), _ROWS_AT_ONCE):
            part = columns.part(max(0, before - at), max(0, end - at))
            at += len(columns.time)
            if len(part.time):
                yield part
