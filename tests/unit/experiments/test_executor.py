"""Executors: same outcomes, and one bad run spoils no other."""

import multiprocessing
import os
import signal
from importlib import import_module
from pathlib import Path

import pytest

from epicast.experiments.executor import Executor, InlineExecutor, LocalExecutor, available_cores
from epicast.experiments.model import Experiment, Scale
from epicast.experiments.tasks import Outcome, make_tasks
from tests.unit.experiments.synthetic import GATE, Averages, Faulty, Gated


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(GATE, str(tmp_path))
    return tmp_path


def outcomes(executor: Executor, experiment: Experiment) -> dict[str, Outcome]:
    tasks = make_tasks(experiment, Scale.SMOKE, 1)
    found = list(executor.run(tasks))
    assert len(found) == len(tasks)
    assert multiprocessing.active_children() == []
    return {outcome.key: outcome for outcome in found}


def test_all_executors_find_the_same() -> None:
    found = [
        {key: outcome.rows for key, outcome in outcomes(executor, Averages()).items()}
        for executor in (InlineExecutor(), LocalExecutor(1), LocalExecutor(2))
    ]
    assert len(found[0]) == 6
    assert found[0] == found[1] == found[2]


def test_a_run_that_raises_and_one_that_dies_fail_alone(gate: Path) -> None:
    tasks = make_tasks(Faulty(), Scale.SMOKE, 1)
    found = outcomes(LocalExecutor(2), Faulty())
    errors = [found[task.key].error for task in tasks]
    assert [bool(error) for error in errors] == [False, True, True, False, False, False]
    assert "RuntimeError: no luck today" in errors[1]
    assert "ended with signal 9" in errors[2] and "--jobs" in errors[2]


def test_an_experiment_the_worker_cannot_import_is_an_error_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "vanishing.py"
    source.write_text(
        "from tests.unit.experiments.synthetic import Averages\n"
        "class Vanishing(Averages):\n    name = 'vanishing'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    experiment = import_module("vanishing").Vanishing()
    source.unlink()
    good = make_tasks(Averages(), Scale.SMOKE, 1)[:1]
    bad = make_tasks(experiment, Scale.SMOKE, 1)[:1]
    first, second = LocalExecutor(1).run([*bad, *good])
    assert first.key == bad[0].key
    assert "ModuleNotFoundError: No module named 'vanishing'" in first.error
    assert second.key == good[0].key and not second.error


def test_ctrl_c_is_the_parents_business(gate: Path) -> None:
    stream = LocalExecutor(2).run(make_tasks(Gated(), Scale.SMOKE, 1))
    found = [next(stream), next(stream)]
    for worker in multiprocessing.active_children():
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGINT)
    (gate / "open").touch()
    found += stream
    assert [outcome.error for outcome in found] == [""] * 6


def test_closing_early_ends_the_workers(gate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epicast.experiments.executor._STOP_SECONDS", 1e6)  # kills, not waits
    stream = LocalExecutor(2).run(make_tasks(Gated(), Scale.SMOKE, 1))
    next(stream)
    next(stream)  # from here on a run waits at the gate
    assert len(multiprocessing.active_children()) == 2
    stream.close()
    assert multiprocessing.active_children() == []


def test_nothing_to_do_starts_nothing() -> None:
    assert list(LocalExecutor(2).run([])) == []


def test_jobs_default_to_the_cores_there_are() -> None:
    assert LocalExecutor().jobs == available_cores() >= 1
