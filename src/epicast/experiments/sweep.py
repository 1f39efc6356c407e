"""Run what is not finished, keep what finishes, put everything in order."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from msgspec import Struct

from epicast.experiments.executor import Executor
from epicast.experiments.journal import Journal
from epicast.experiments.model import Experiment, Scale
from epicast.experiments.results import Results
from epicast.experiments.tasks import Outcome, Task, make_tasks


class Failure(Struct, frozen=True):
    task: Task
    error: str
    """The traceback, as text."""


class Sweep(Struct, frozen=True):
    """A finished sweep. `results` are the rows of the runs that succeeded, by point."""

    experiment: Experiment
    scale: Scale
    seed: int
    tasks: list[Task]
    results: Results
    failures: list[Failure]
    reused: int
    """Runs taken over from an earlier sweep in the same directory."""
    seconds: float
    """Work done in all runs together, reused ones included."""


class Watcher:
    """Is told how a sweep goes; this one does not care."""

    def started(self, total: int, reused: int, unreadable: int) -> None:
        """Of `total` runs, `reused` are finished already; `unreadable` lines were dropped."""

    def finished(self, outcome: Outcome) -> None:
        """One more run is done, and kept."""


def run_sweep(
    experiment: Experiment,
    scale: Scale,
    seed: int,
    directory: Path,
    executor: Executor,
    watcher: Watcher | None = None,
) -> Sweep:
    """Do the runs of `experiment` whose results are not yet in `directory`.

    Interrupted at any point, even by a power cut, it goes on from the runs already finished when it
    is called again. Failed runs are tried again.
    """
    watcher = watcher or Watcher()
    tasks = make_tasks(experiment, scale, seed)
    by_key = {task.key: task for task in tasks}
    with Journal(directory, experiment.name) as journal:
        outcomes = {key: journal.finished[key] for key in by_key if key in journal.finished}
        reused = len(outcomes)
        watcher.started(len(tasks), reused, journal.unreadable)
        remaining = [task for task in tasks if task.key not in outcomes]
        with closing(executor.run(remaining)) as stream:
            for outcome in stream:
                journal.append(by_key[outcome.key], outcome)
                outcomes[outcome.key] = outcome
                watcher.finished(outcome)
    ordered = [outcomes[task.key] for task in tasks]
    return Sweep(
        experiment,
        scale,
        seed,
        tasks,
        Results(scale, [row for outcome in ordered for row in outcome.rows]),
        [Failure(by_key[outcome.key], outcome.error) for outcome in ordered if outcome.error],
        reused,
        sum(outcome.seconds for outcome in ordered),
    )
