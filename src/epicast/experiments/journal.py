"""The finished runs of a sweep, on disk as they finish: `DIR/runs/runs.jsonl`, append only.

One line per run. A line torn by a crash is not a run: it is cut off before the next is appended.
The file is locked while a sweep writes it, so that two sweeps cannot share a directory.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from epicast.core.errors import ConfigError, EpicastError
from epicast.experiments.tasks import Outcome, Task


class Journal:
    """Use as a context manager. `finished` holds the outcomes of earlier sweeps, by key."""

    def __init__(self, directory: Path, experiment: str) -> None:
        self.path = directory / "runs" / "runs.jsonl"
        self.experiment = experiment
        self.finished: dict[str, Outcome] = {}
        self.unreadable = 0
        """Lines that are not runs: those runs are done again."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b")
        except OSError as error:
            raise ConfigError(f"cannot write to {directory}: {error.strerror}") from error
        try:
            self._lock(directory)
            self._load(directory)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def append(self, task: Task, outcome: Outcome) -> None:
        """Failed runs are recorded too, for the reader; a later sweep tries them again."""
        line: dict[str, Any] = {
            "key": task.key,
            "experiment": self.experiment,
            "parameters": dict(task.parameters),
            "seed": task.seed,
            "seconds": round(outcome.seconds, 3),
            "error": outcome.error,
            "rows": outcome.rows,
        }
        try:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise EpicastError(
                f"cannot write {self.path}: {error.strerror}; finished runs are kept, run again "
                "to go on"
            ) from error

    def _lock(self, directory: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"another sweep is writing to {directory}; use another --out"
            ) from None

    def _load(self, directory: Path) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self.unreadable += 1
            os.ftruncate(self._file.fileno(), whole)
        for line in content[:whole].splitlines():
            try:
                entry = json.loads(line)
                self._take(entry, directory)
            except (ValueError, KeyError, TypeError):
                self.unreadable += 1

    def _take(self, entry: Mapping[str, Any], directory: Path) -> None:
        if entry["experiment"] != self.experiment:
            raise ConfigError(
                f"{directory} holds runs of '{entry['experiment']}'; use another --out for "
                f"'{self.experiment}'"
            )
        outcome = Outcome(entry["key"], entry["rows"], entry["error"], entry["seconds"])
        if outcome.error:
            self.finished.pop(outcome.key, None)
        else:
            self.finished[outcome.key] = outcome
