"""A sweep: resumes, retries, and leaves the same bytes however it came about."""

from pathlib import Path

import pytest

from epicast.experiments.executor import Executor, InlineExecutor
from epicast.experiments.model import Experiment, Scale
from epicast.experiments.outputs import write_outputs
from epicast.experiments.sweep import Sweep, Watcher, run_sweep
from epicast.experiments.tasks import Outcome, Task, execute
from tests.unit.experiments.synthetic import GATE, Averages, Faulty


class Backwards(Executor):
    """Finishes the last task first, and stops early if told to."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after = stop_after
        self.ran: list[Task] = []

    def run(self, tasks):  # type: ignore[no-untyped-def]
        for task in list(reversed(tasks))[: self.stop_after]:
            self.ran.append(task)
            yield execute(task)
        if self.stop_after is not None:
            raise KeyboardInterrupt


class Unlucky(Executor):
    """Two runs fail."""

    def run(self, tasks):  # type: ignore[no-untyped-def]
        for task in tasks:
            if task.parameters["number"] in (1, 2):
                yield Outcome(task.key, [], "the worker process ended")
            else:
                yield execute(task)


class Notes(Watcher):
    def __init__(self) -> None:
        self.start: tuple[int, int, int] | None = None
        self.outcomes: list[Outcome] = []

    def started(self, total: int, reused: int, unreadable: int) -> None:
        self.start = total, reused, unreadable

    def finished(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def sweep(
    directory: Path,
    executor: Executor,
    experiment: Experiment | None = None,
    *,
    scale: Scale = Scale.SMOKE,
    seed: int = 1,
    watcher: Watcher | None = None,
) -> Sweep:
    return run_sweep(experiment or Averages(), scale, seed, directory, executor, watcher)


def parquet(directory: Path, finished: Sweep) -> bytes:
    write_outputs(finished, directory)
    return (directory / "results.parquet").read_bytes()


def test_results_do_not_depend_on_executor_order_or_interruption(tmp_path: Path) -> None:
    wanted = parquet(tmp_path / "a", sweep(tmp_path / "a", InlineExecutor()))
    assert parquet(tmp_path / "b", sweep(tmp_path / "b", Backwards())) == wanted
    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path / "d", Backwards(stop_after=4))
    resumed = sweep(tmp_path / "d", InlineExecutor())
    assert resumed.reused == 4
    assert parquet(tmp_path / "d", resumed) == wanted
    assert parquet(tmp_path / "e", sweep(tmp_path / "e", InlineExecutor(), seed=2)) != wanted


def test_rows_are_in_the_order_of_the_points(tmp_path: Path) -> None:
    results = sweep(tmp_path, Backwards()).results
    assert results.column("size") == [s for s in (10, 100, 1000) for _ in range(4)]
    assert results.column("kind") == ["plain", "plain", "squared", "squared"] * 3
    assert results.column("part") == ["whole", "half"] * 6


def test_only_what_is_not_finished_runs(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, Backwards(stop_after=2))
    rest, notes = Backwards(), Notes()
    sweep(tmp_path, rest, watcher=notes)
    assert len(rest.ran) == 4
    assert notes.start == (6, 2, 0)
    assert len(notes.outcomes) == 4
    again = Backwards()
    assert sweep(tmp_path, again).reused == 6
    assert again.ran == []


def test_a_larger_scale_builds_on_the_smaller(tmp_path: Path) -> None:
    sweep(tmp_path, InlineExecutor())
    larger = sweep(tmp_path, InlineExecutor(), scale=Scale.PAPER)
    assert (larger.reused, len(larger.tasks), len(larger.results)) == (6, 10, 20)
    smaller = sweep(tmp_path, InlineExecutor())
    assert (smaller.reused, len(smaller.results)) == (6, 12)


def test_failed_runs_are_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GATE, str(tmp_path))
    out = tmp_path / "out"
    first = sweep(out, Unlucky(), Faulty())
    assert [failure.task.parameters["number"] for failure in first.failures] == [1, 2]
    assert first.results.column("number") == [0, 3, 4, 5]
    (tmp_path / "open").touch()
    second = sweep(out, InlineExecutor(), Faulty())
    assert (second.reused, second.failures) == (4, [])
    assert second.results.column("number") == [0, 1, 2, 3, 4, 5]
