"""Tasks: recognised by what they do, done wherever, never raising."""

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from epicast.experiments.model import Claim, Experiment, Parameters, Row, Scale
from epicast.experiments.results import Results
from epicast.experiments.tasks import Task, describe, execute, make_tasks


class Probe(Experiment):
    """Its points are `at`, and a run returns, or raises, `row`."""

    name = "probe"
    title = "Probe"
    claim_ids = ()
    at: Sequence[Parameters] = ({"b": 1, "a": "x"}, {"b": 2, "a": "x"})
    row: Any = ()

    def points(self, scale: Scale) -> Sequence[Parameters]:
        return self.at

    def run(self, parameters: Parameters, seed: int) -> Row | Sequence[Row]:
        if isinstance(self.row, BaseException):
            raise self.row
        return self.row

    def claims(self, results: Results) -> list[Claim]:
        return []


def tasks(at: list[Parameters], seed: int = 1) -> list[Task]:
    probe = Probe()
    probe.at = at
    return make_tasks(probe, Scale.SMOKE, seed)


def outcome(row: Any, parameters: Mapping[str, Any] | None = None) -> Any:
    probe = Probe()
    probe.row = row
    return execute(Task(probe, parameters or {"p": 1}, 7, "key"))


def test_key_and_seed_do_not_change_between_versions() -> None:
    """Results on disk are found again by these; a change here orphans everybody's sweeps."""
    first, second = tasks([{"b": 1, "a": "x"}, {"b": 2.5, "a": None}], seed=3)
    assert (first.key, first.seed) == ("5c7842076cf0073ed50ed750", 6132558036870640285)
    assert (second.key, second.seed) == ("4571b8c287b5c7653e70e9f6", 6702265508559746863)


def test_key_and_seed_follow_parameters_and_seed_only() -> None:
    one = tasks([{"b": 1, "a": "x"}])[0]
    same = [
        tasks([{"a": "x", "b": 1}])[0],  # the order of parameters
        tasks([{"z": 0}, {"b": 1, "a": "x"}])[1],  # another point before it
        tasks([{"b": np.int64(1), "a": np.str_("x")}])[0],  # numpy's scalars
    ]
    assert {(task.key, task.seed) for task in same} == {(one.key, one.seed)}
    others = [
        tasks([{"b": 1, "a": "x"}], seed=2)[0],
        tasks([{"b": 2, "a": "x"}])[0],
        tasks([{"b": "1", "a": "x"}])[0],
    ]
    assert len({one.key, *(other.key for other in others)}) == 4
    assert len({one.seed, *(other.seed for other in others)}) == 4
    assert all(0 <= task.seed < 2**63 for task in [one, *others])


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ([{"a": 1}, {"a": 1}], "occurs twice"),
        ([], "no points at scale smoke"),
        ([{"seed": 1}], "'seed' is not a parameter"),
        ([{"a": [1]}], "'a' is a list"),
    ],
)
def test_impossible_points_are_refused(at: list[Parameters], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        tasks(at)


def test_rows_hold_parameters_seed_and_metrics_as_plain_values() -> None:
    found = outcome(
        [{"x": np.float32(0.5), "n": np.int64(3)}, {"ok": np.bool_(True), "none": None}]
    )
    assert found.error == ""
    assert found.rows == [
        {"p": 1, "seed": 7, "x": 0.5, "n": 3},
        {"p": 1, "seed": 7, "ok": True, "none": None},
    ]
    kinds = [type(value) for row in found.rows for value in row.values()]
    assert set(kinds) == {int, float, bool, type(None)}


def test_one_row_needs_no_list() -> None:
    assert outcome({"x": 1}).rows == [{"p": 1, "seed": 7, "x": 1}]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
        ({"x": [1, 2]}, "'x' is a list; parameters and metrics are scalars"),
        ({"x": 2**63}, "beyond 64 bits"),
        ({"p": 2}, "'p' has the name of a parameter"),
        (None, "TypeError"),
    ],
)
def test_errors_become_outcomes_with_a_traceback(row: Any, message: str) -> None:
    found = outcome(row)
    assert found.rows == []
    assert message in found.error
    assert found.error.startswith("Traceback")


def test_a_metric_may_repeat_its_parameter() -> None:
    assert outcome({"p": 1, "x": 2}).rows == [{"p": 1, "seed": 7, "x": 2}]


def test_a_task_travels() -> None:
    task = make_tasks(Probe(), Scale.SMOKE, 1)[0]
    copy = pickle.loads(pickle.dumps(task))
    assert (copy.key, copy.seed, copy.parameters) == (task.key, task.seed, task.parameters)
    assert isinstance(copy.experiment, Probe)


def test_describe() -> None:
    assert describe({"view": 4, "mode": "x"}) == "view=4, mode=x"
    assert describe({}) == "no parameters"
