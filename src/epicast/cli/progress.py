"""Progress of anything that takes more than a moment: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """A context manager: `begin`, then `advance` for each step done. Writes to stderr.

    A total of 0 is one that nobody knows."""

    def __init__(
        self,
        title: str,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title = title
        self.total = self.done = self.failed = 0
        self._stream = stream or sys.stderr
        self._clock = clock
        self._started = self._last_line = clock()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, total: int) -> None:
        self.total = total
        if total and self._stream.isatty():
            self._bar = _bar(self.title, total, self._stream)
            self._bar.start()

    def grow(self, total: int) -> None:
        """There is more to do than was known."""
        if not self.total:
            self.begin(total)
        self.total = total
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=total)

    def advance(self, *, failed: bool = False, by: int = 1) -> None:
        self.done += by
        self.failed += failed
        if self._bar is not None:
            title = f"{self.title} ({self.failed} failed)" if self.failed else self.title
            self._bar.update(self._bar.task_ids[0], advance=by, description=title)
        elif self.done == self.total or self._clock() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = self._clock()
            print(self._line(), file=self._stream, flush=True)

    def _line(self) -> str:
        elapsed = self._clock() - self._started
        of_total = f" of {self.total}" if self.total else ""
        text = f"{self.title}: {self.done}{of_total} done"
        text += f", {self.failed} failed" if self.failed else ""
        if self.done < self.total:
            left = elapsed / self.done * (self.total - self.done)
            return f"{text}, about {left:.0f} s left"
        return f"{text} in {elapsed:.1f} s"


def _bar(title: str, total: int, stream: TextIO) -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=stream),
    )
    bar.add_task(title, total=total)
    return bar
