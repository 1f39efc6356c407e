"""The journal: whatever a crash leaves of it is either a whole run or no run."""

import json
import math
from pathlib import Path

import pytest

from epicast.core import ConfigError
from epicast.experiments.journal import Journal
from epicast.experiments.model import Scale
from epicast.experiments.tasks import Outcome, Task, make_tasks
from tests.unit.experiments.synthetic import Averages

TASKS = make_tasks(Averages(), Scale.SMOKE, 1)


def write(directory: Path, *outcomes: tuple[Task, Outcome]) -> None:
    with Journal(directory, "averages") as journal:
        for task, outcome in outcomes:
            journal.append(task, outcome)


def read(directory: Path) -> tuple[dict[str, Outcome], int]:
    with Journal(directory, "averages") as journal:
        return journal.finished, journal.unreadable


def done(task: Task, value: object = 0.1) -> tuple[Task, Outcome]:
    return task, Outcome(task.key, [{"value": value}], "", 1.5)  # type: ignore[dict-item]


def test_outcomes_come_back_exactly(tmp_path: Path) -> None:
    rows = [
        {"f": 0.1 + 0.2, "whole": 1.0, "i": 2**62, "s": "é\n☃\u2028", "b": True, "n": None},
        {"inf": math.inf},
    ]
    outcome = Outcome(TASKS[0].key, rows, "", 1.5)  # type: ignore[arg-type]
    write(tmp_path, (TASKS[0], outcome))
    assert read(tmp_path) == ({TASKS[0].key: outcome}, 0)
    assert isinstance(read(tmp_path)[0][TASKS[0].key].rows[0]["whole"], float)
    write(tmp_path, done(TASKS[1], math.nan))
    value = read(tmp_path)[0][TASKS[1].key].rows[0]["value"]
    assert isinstance(value, float) and math.isnan(value)


def test_cut_at_any_byte(tmp_path: Path) -> None:
    write(tmp_path, done(TASKS[0]), done(TASKS[1]))
    path = tmp_path / "runs" / "runs.jsonl"
    content = path.read_bytes()
    ends = [index + 1 for index, byte in enumerate(content) if byte == ord("\n")]
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        whole = sum(end <= cut for end in ends)
        finished, unreadable = read(tmp_path)
        assert list(finished) == [task.key for task in TASKS[:whole]]
        assert unreadable == (cut not in (0, *ends))
        write(tmp_path, done(TASKS[2]))
        assert list(read(tmp_path)[0]) == [*finished, TASKS[2].key]


def test_garbage_between_runs_is_dropped(tmp_path: Path) -> None:
    write(tmp_path, done(TASKS[0]))
    path = tmp_path / "runs" / "runs.jsonl"
    junk = b"\x00\x00\xff\n[1]\n{}\n\n"
    path.write_bytes(junk + path.read_bytes())
    assert read(tmp_path) == ({TASKS[0].key: done(TASKS[0])[1]}, 4)


def test_a_failed_run_is_recorded_but_not_finished(tmp_path: Path) -> None:
    failed = Outcome(TASKS[0].key, [], "Traceback: boom", 0.5)
    write(tmp_path, (TASKS[0], failed), done(TASKS[1]))
    assert list(read(tmp_path)[0]) == [TASKS[1].key]
    line = json.loads((tmp_path / "runs" / "runs.jsonl").read_text("utf-8").splitlines()[0])
    assert line["error"] == "Traceback: boom"
    assert line["parameters"] == dict(TASKS[0].parameters)
    write(tmp_path, done(TASKS[0]))
    assert set(read(tmp_path)[0]) == {TASKS[0].key, TASKS[1].key}


def test_another_experiments_directory_is_refused(tmp_path: Path) -> None:
    write(tmp_path, done(TASKS[0]))
    before = (tmp_path / "runs" / "runs.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="holds runs of 'averages'; use another --out for 'x'"):
        Journal(tmp_path, "x")
    assert (tmp_path / "runs" / "runs.jsonl").read_bytes() == before


def test_two_sweeps_cannot_share_a_directory(tmp_path: Path) -> None:
    with (
        Journal(tmp_path, "averages"),
        pytest.raises(ConfigError, match="another sweep is writing"),
    ):
        Journal(tmp_path, "averages")
    write(tmp_path, done(TASKS[0]))  # the lock goes with the journal


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write to .*file: Not a directory"):
        Journal(tmp_path / "file", "averages")
