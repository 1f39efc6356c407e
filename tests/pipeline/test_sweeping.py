"""Sweeps on Spark: the same outcomes as anywhere, and one bad run spoils no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epicast.experiments.executor import Executor, InlineExecutor
from epicast.experiments.model import Experiment, Scale
from epicast.experiments.outputs import write_outputs
from epicast.experiments.sweep import run_sweep
from epicast.experiments.tasks import Outcome, make_tasks
from epicast.pipeline.errors import SparkFailed
from epicast.pipeline.session import check_master
from epicast.pipeline.sweeping import SparkExecutor
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


@pytest.mark.parametrize(
    ("master", "complaint"),
    [
        ("somewhere", "is not a Spark master; use local"),
        ("spark://nohost", "'nohost' is not HOST:PORT"),
        ("spark://127.0.0.1:1", "no Spark master answers at spark://127.0.0.1:1"),
    ],
)
def test_a_master_that_is_none_is_told_at_once(master: str, complaint: str) -> None:
    with pytest.raises(SparkFailed, match=complaint):
        check_master(master)
