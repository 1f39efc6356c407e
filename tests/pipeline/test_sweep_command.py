"""`epicast experiment run` on Spark as a person meets it: real processes, ended in real ways."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.experiment_cli import (
    PATIENCE_SECONDS,
    epicast,
    finished_runs,
    is_one_line,
    locked,
    start,
    wait_for,
)
from tests.pipeline.processes import Process, descendants

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "gate"
    directory.mkdir()
    yield directory
    (directory / "open").touch()  # whatever a failed test left waiting may end


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What the gated experiment leaves when nobody disturbs it, without Spark."""
    opened, whole = (tmp_path_factory.mktemp(name) for name in ("opened", "whole"))
    (opened / "open").touch()
    done = epicast("experiment", "run", "gated", "--inline", "--out", whole / "out", gate=opened)
    assert done.returncode == 0, done.stderr
    return (whole / "out" / "results.parquet").read_bytes()


def in_the_middle(out: Path, gate: Path) -> tuple[subprocess.Popen[bytes], list[Process]]:
    """A sweep with two runs done and two that wait at the gate; it, and all it has started."""
    running = start("experiment", "run", "gated", "--out", out, "--master", "local[2]", gate=gate)
    wait_for(lambda: finished_runs(out) == 2 and locked(gate / "run-2") and locked(gate / "run-3"))
    family = descendants(running.pid)
    names = [process.name for process in family]
    assert "java" in names and len(names) >= 4, "a JVM, a daemon and two workers"
    return running, family


def test_killed_in_the_middle_it_goes_on(tmp_path: Path, gate: Path, uninterrupted: bytes) -> None:
    out = tmp_path / "out"
    running, family = in_the_middle(out, gate)
    running.kill()
    running.wait()
    # Its workers were in the middle of runs nobody waits for: they must not live on.
    wait_for(lambda: not any(process.lives() for process in family))
    assert not (out / "results.parquet").exists()
    with (out / "runs" / "runs.jsonl").open("ab") as journal:
        journal.write(b'{"key": "torn')

    (gate / "open").touch()
    # Without Spark this time; the next test goes on with it.
    resumed = epicast("experiment", "run", "gated", "--out", out, "--inline", gate=gate)
    assert resumed.returncode == 0, resumed.stderr
    assert "2 of 6 runs are in" in resumed.stderr
    assert "gated: 4 of 4 done" in resumed.stderr
    assert (out / "results.parquet").read_bytes() == uninterrupted


def test_interrupted_it_says_how_to_go_on(tmp_path: Path, gate: Path, uninterrupted: bytes) -> None:
    out = tmp_path / "my out"
    running, family = in_the_middle(out, gate)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: everything started from it
    assert running.wait(PATIENCE_SECONDS) == 130
    wait_for(lambda: not any(process.lives() for process in family))
    errors = (gate / "stderr").read_text("utf-8")
    assert "Traceback" not in errors and "Exception" not in errors
    assert "2 of 6 runs are kept" in errors
    assert finished_runs(out) == 2

    (gate / "open").touch()
    advice = shlex.split(errors.splitlines()[-1])
    assert advice[0] == "epicast" and advice[-2:] == ["--master", "local[2]"]
    resumed = epicast(*advice[1:], gate=gate)
    assert resumed.returncode == 0, resumed.stderr
    assert (out / "results.parquet").read_bytes() == uninterrupted


def test_interrupted_before_spark_is_there(tmp_path: Path, gate: Path) -> None:
    out = tmp_path / "out"
    running = start("experiment", "run", "gated", "--out", out, "--master", "local[2]", gate=gate)
    wait_for(lambda: any(process.name == "java" for process in descendants(running.pid)))
    family = descendants(running.pid)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(PATIENCE_SECONDS) == 130
    wait_for(lambda: not any(process.lives() for process in family))
    errors = (gate / "stderr").read_text("utf-8")
    assert "Traceback" not in errors and "0 of 6 runs are kept" in errors


def test_failed_runs_are_reported_and_retried(tmp_path: Path, gate: Path) -> None:
    out = tmp_path / "out"
    words = ("experiment", "run", "faulty", "--out", out, "--json")
    failed = epicast(*words, "--master", "local[2]", gate=gate)
    assert failed.returncode == 1
    summary = json.loads(failed.stdout)
    assert summary["runs"] == {"total": 6, "reused": 0, "failed": 2}
    assert [each["parameters"] for each in summary["failures"]] == [{"number": 1}, {"number": 2}]
    assert "RuntimeError: no luck today" in summary["failures"][0]["error"]
    assert "the worker process ended" in summary["failures"][1]["error"]
    assert [claim["holds"] for claim in summary["claims"]] == [False, False]
    assert "2 runs failed" in failed.stderr and "RuntimeError: no luck today" in failed.stderr
    assert ".java:" not in failed.stderr and ".scala:" not in failed.stderr

    (gate / "open").touch()
    retried = epicast(*words, "--inline", gate=gate)
    assert retried.returncode == 0, retried.stderr
    assert json.loads(retried.stdout)["runs"] == {"total": 6, "reused": 4, "failed": 0}


@pytest.mark.parametrize(
    ("master", "message"),
    [
        ("spark://127.0.0.1:1", "no Spark master answers at spark://127.0.0.1:1"),
        ("somewhere", "'somewhere' is not a Spark master; use local[*]"),
    ],
)
def test_a_wrong_master_is_one_line_and_nothing_is_written(
    tmp_path: Path, master: str, message: str
) -> None:
    out = tmp_path / "out"
    failed = epicast("experiment", "run", "averages", "--out", out, "--master", master)
    assert failed.returncode == 2 and failed.stdout == ""
    assert failed.stderr.startswith(f"epicast: {message}") and is_one_line(failed.stderr)
    assert not out.exists()
