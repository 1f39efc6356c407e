"""Telling the person at the terminal how a sweep goes."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from epicast.cli.output import say
from epicast.cli.progress import Progress
from epicast.experiments.sweep import Watcher
from epicast.experiments.tasks import Outcome


class SweepProgress(Watcher):
    def __init__(self, title: str, directory: Path) -> None:
        self.directory = directory
        self.total = self.kept = 0
        self._progress = Progress(title)

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.__exit__(kind, error, trace)

    def started(self, total: int, reused: int, unreadable: int) -> None:
        self.total, self.kept = total, reused
        if unreadable:
            say(f"{unreadable} unfinished lines in {self.directory}/runs were dropped")
        if reused:
            say(
                f"{reused} of {total} runs are in {self.directory} already and are not run again "
                f"(to start over, delete {self.directory}/runs)"
            )
        self._progress.begin(total - reused)

    def finished(self, outcome: Outcome) -> None:
        self.kept += not outcome.error
        self._progress.advance(failed=bool(outcome.error))

    def interrupted(self, reason: str, command: str) -> None:
        say(f"{reason}. {self.kept} of {self.total} runs are kept; to go on:\n  {command}")
