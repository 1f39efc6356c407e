"""Sweeps on Spark: the same outcomes as anywhere, and one bad run spoils no other."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from epicast.experiments.executor import Executor, InlineExecutor
from epicast.experiments.model import Experiment, Parameters, Row, Scale
from epicast.experiments.outputs import write_outputs
from epicast.experiments.sweep import run_sweep
from epicast.experiments.tasks import Outcome, make_tasks
from epicast.pipeline.sweeping import SparkExecutor
from epicast.pipeline.threads import one_thread
from tests.pipeline.conftest import MASTER
from tests.unit.experiments.synthetic import Averages, Faulty, Gated


def outcomes(executor: Executor, experiment: Experiment) -> dict[str, Outcome]:
    tasks = make_tasks(experiment, Scale.SMOKE, 1)
    found = list(executor.run(tasks))
    assert len(found) == len(tasks)
    return {outcome.key: outcome for outcome in found}


def parquet(directory: Path, executor: Executor) -> bytes:
    write_outputs(run_sweep(Averages(), Scale.SMOKE, 1, directory, executor), directory)
    return (directory / "results.parquet").read_bytes()


def test_the_same_results_as_in_this_process(spark: Any, tmp_path: Path) -> None:
    wanted = parquet(tmp_path / "inline", InlineExecutor())
    assert parquet(tmp_path / "spark", SparkExecutor(MASTER, spark)) == wanted


def test_a_run_that_raises_and_one_that_dies_fail_alone(spark: Any) -> None:
    tasks = make_tasks(Faulty(), Scale.SMOKE, 1)
    found = outcomes(SparkExecutor(MASTER, spark), Faulty())
    errors = [found[task.key].error for task in tasks]
    assert [bool(error) for error in errors] == [False, True, True, False, False, False]
    assert "RuntimeError: no luck today" in errors[1]
    assert "the worker process ended" in errors[2]


def test_closing_early_cancels_what_still_runs(spark: Any) -> None:
    stream = SparkExecutor(MASTER, spark).run(make_tasks(Gated(), Scale.SMOKE, 1))
    next(stream)
    next(stream)  # from here on runs wait at a gate that nobody opens
    stream.close()
    tracker = spark.sparkContext.statusTracker()
    assert tracker.getActiveJobsIds() == []
    assert spark.range(10).count() == 10, "the session is as good as before"


def test_an_experiment_the_worker_cannot_import_is_an_error_row(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "vanishing.py"
    source.write_text(
        "from tests.unit.experiments.synthetic import Averages\n"
        "class Vanishing(Averages):\n    name = 'vanishing'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    experiment = import_module("vanishing").Vanishing()
    good = make_tasks(Averages(), Scale.SMOKE, 1)[:1]
    bad = make_tasks(experiment, Scale.SMOKE, 1)[:1]
    found = {each.key: each for each in SparkExecutor(MASTER, spark).run([*bad, *good])}
    assert "ModuleNotFoundError: No module named 'vanishing'" in found[bad[0].key].error
    assert found[good[0].key].error == ""


def test_nothing_to_do_starts_nothing() -> None:
    assert list(SparkExecutor("nowhere").run([])) == []


class Threads(Averages):
    """What numerical libraries are told in a worker."""

    name = "threads"

    def points(self, scale: Scale) -> list[Parameters]:
        return [{}]

    def run(self, parameters: Parameters, seed: int) -> Row:
        return {name: os.environ[name] for name in one_thread({})}


def test_workers_keep_to_one_thread(spark: Any) -> None:
    (found,) = outcomes(SparkExecutor(MASTER, spark), Threads()).values()
    assert found.error == ""
    assert found.rows[0].items() >= one_thread({}).items()


def test_who_asks_for_more_threads_gets_them() -> None:
    assert one_thread({"OMP_NUM_THREADS": "4", "HOME": "/"}) == {
        **one_thread({}),
        "OMP_NUM_THREADS": "4",
    }
