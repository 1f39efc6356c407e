"""`epicast experiment` as a person meets it: real processes, exit codes, interruption."""

import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.experiments.synthetic import GATE

ROOT = Path(__file__).parents[2]
LAUNCH = """
import sys
from epicast.cli import main
from tests.unit.experiments.synthetic import registry
sys.exit(main(sys.argv[1:], experiments=registry()))
"""
PATIENCE_SECONDS = 60.0


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", LAUNCH, *map(str, arguments)]


def epicast(*arguments: object, gate: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        env={**os.environ, GATE: str(gate), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def start(*arguments: object, gate: Path) -> subprocess.Popen[bytes]:
    """What it says goes to files: an orphaned worker holding a pipe could block the test."""
    with (gate / "stdout").open("w") as stdout, (gate / "stderr").open("w") as stderr:
        return subprocess.Popen(
            command(*arguments),
            cwd=ROOT,
            env={**os.environ, GATE: str(gate)},
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )


def wait_for(condition: Callable[[], bool]) -> None:
    """Polls; how long it takes does not matter, only that it happens."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def finished_runs(out: Path) -> int:
    journal = out / "runs" / "runs.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def locked(path: Path) -> bool:
    """Whether a living process holds the lock a gated run takes."""
    if not path.exists():
        return False
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def is_one_line(text: str) -> bool:
    return text.endswith("\n") and text.count("\n") == 1


def test_list() -> None:
    shown = epicast("experiment", "list")
    assert shown.returncode == 0
    assert "averages" in shown.stdout and "T1 T2" in shown.stdout and "6 / 10 / 14" in shown.stdout
    rows = json.loads(epicast("experiment", "list", "--json").stdout)
    assert rows[0] == {
        "name": "averages",
        "title": "Means of <samples> & more",
        "claims": ["T1", "T2"],
        "runs": {"smoke": 6, "paper": 10, "beyond": 14},
    }


def test_run_leaves_everything_and_claims_shows_it(tmp_path: Path) -> None:
    done = epicast("experiment", "run", "averages", "--out", tmp_path / "a", "--seed", "5")
    assert done.returncode == 0, done.stderr
    assert "1 of 2 claims hold" in done.stdout
    assert f"Report: {tmp_path / 'a' / 'report.html'}" in done.stdout
    assert "averages: 6 of 6 done" in done.stderr
    for name in ("claims.json", "results.parquet", "report.html", "plots/means.png"):
        assert (tmp_path / "a" / name).stat().st_size > 0
    report = (tmp_path / "a" / "report.html").read_text("utf-8")
    assert f"epicast experiment run averages --scale smoke --seed 5 --out {tmp_path}/a" in report

    shown = epicast("experiment", "claims", tmp_path / "a")
    assert shown.returncode == 0
    assert "cannot [hold]" in shown.stdout and "NO" in shown.stdout
    assert epicast("experiment", "claims", tmp_path / "a", "--strict").returncode == 1
    claims = json.loads(epicast("experiment", "claims", tmp_path / "a", "--json").stdout)
    assert [(c["id"], c["holds"], c["directory"]) for c in claims] == [
        ("T1", True, str(tmp_path / "a")),
        ("T2", False, str(tmp_path / "a")),
    ]


def test_same_bytes_for_one_worker_two_workers_and_none(tmp_path: Path) -> None:
    for jobs in ("0", "1", "2"):
        out = tmp_path / jobs
        done = epicast("experiment", "run", "averages", "--out", out, "--jobs", jobs)
        assert done.returncode == 0, done.stderr
    tables = {(tmp_path / jobs / "results.parquet").read_bytes() for jobs in ("0", "1", "2")}
    assert len(tables) == 1


def test_run_by_claim_with_json(tmp_path: Path) -> None:
    done = epicast("experiment", "run", "--claim", "T2", "--out", tmp_path, "--json")
    summary = json.loads(done.stdout)
    assert summary["experiment"] == "averages"
    assert summary["runs"] == {"total": 6, "reused": 0, "failed": 0}
    assert summary["claims"] == json.loads((tmp_path / "claims.json").read_text("utf-8"))
    again = epicast("experiment", "run", "--claim", "T2", "--out", tmp_path, "--json")
    assert json.loads(again.stdout)["runs"] == {"total": 6, "reused": 6, "failed": 0}
    assert "6 of 6 runs are in" in again.stderr and "delete" in again.stderr


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "gate"
    directory.mkdir()
    yield directory
    (directory / "open").touch()  # whatever a failed test left waiting may end


@pytest.fixture
def uninterrupted(tmp_path: Path) -> bytes:
    """What the gated experiment leaves when nobody disturbs it."""
    opened = tmp_path / "opened"
    opened.mkdir()
    (opened / "open").touch()
    done = epicast("experiment", "run", "gated", "--out", tmp_path / "whole", gate=opened)
    assert done.returncode == 0, done.stderr
    return (tmp_path / "whole" / "results.parquet").read_bytes()


def test_killed_in_the_middle_it_goes_on(tmp_path: Path, gate: Path, uninterrupted: bytes) -> None:
    out = tmp_path / "out"
    running = start("experiment", "run", "gated", "--out", out, "--jobs", "2", gate=gate)
    wait_for(lambda: finished_runs(out) == 2 and locked(gate / "run-2") and locked(gate / "run-3"))
    running.kill()
    running.wait()
    # The workers were in the middle of runs nobody waits for: they must not live on.
    wait_for(lambda: not locked(gate / "run-2") and not locked(gate / "run-3"))
    assert not (out / "results.parquet").exists()
    with (out / "runs" / "runs.jsonl").open("ab") as journal:
        journal.write(b'{"key": "torn')

    (gate / "open").touch()
    resumed = epicast("experiment", "run", "gated", "--out", out, "--jobs", "2", gate=gate)
    assert resumed.returncode == 0, resumed.stderr
    assert "2 of 6 runs are in" in resumed.stderr
    assert "gated: 4 of 4 done" in resumed.stderr
    assert (out / "results.parquet").read_bytes() == uninterrupted


def test_interrupted_it_says_how_to_go_on(tmp_path: Path, gate: Path, uninterrupted: bytes) -> None:
    out = tmp_path / "my out"
    running = start("experiment", "run", "gated", "--out", out, "--jobs", "2", gate=gate)
    wait_for(lambda: finished_runs(out) == 2 and locked(gate / "run-2") and locked(gate / "run-3"))
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: parent and workers alike
    assert running.wait(PATIENCE_SECONDS) == 130
    errors = (gate / "stderr").read_text("utf-8")
    assert "Traceback" not in errors
    assert "2 of 6 runs are kept" in errors
    assert not locked(gate / "run-2") and not locked(gate / "run-3")

    (gate / "open").touch()
    advice = shlex.split(errors.splitlines()[-1])
    assert advice[0] == "epicast"
    resumed = epicast(*advice[1:], gate=gate)
    assert resumed.returncode == 0, resumed.stderr
    assert (out / "results.parquet").read_bytes() == uninterrupted


def test_failed_runs_are_reported_and_retried(tmp_path: Path, gate: Path) -> None:
    out = tmp_path / "out"
    failed = epicast("experiment", "run", "faulty", "--out", out, "--json", gate=gate)
    assert failed.returncode == 1
    summary = json.loads(failed.stdout)
    assert summary["runs"] == {"total": 6, "reused": 0, "failed": 2}
    assert [failure["parameters"] for failure in summary["failures"]] == [
        {"number": 1},
        {"number": 2},
    ]
    assert "RuntimeError: no luck today" in summary["failures"][0]["error"]
    assert [claim["holds"] for claim in summary["claims"]] == [False, False]
    assert "2 runs failed" in failed.stderr and "RuntimeError: no luck today" in failed.stderr

    (gate / "open").touch()
    retried = epicast("experiment", "run", "faulty", "--out", out, "--json", gate=gate)
    assert retried.returncode == 0, retried.stderr
    assert json.loads(retried.stdout)["runs"] == {"total": 6, "reused": 4, "failed": 0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "averges"], "there is no experiment 'averges'; did you mean 'averages'?"),
        (["run", "--claim", "Z9"], "no experiment covers claim 'Z9'; covered: T1, T2, T3, T4, T5"),
        (["run", "averages", "--out", "/dev/null/x"], "cannot write to /dev/null/x: Not a dir"),
        (["claims", "/no/such"], "there is no /no/such/claims.json; write it with: epicast"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line_and_status_2(arguments: list[str], message: str) -> None:
    failed = epicast("experiment", *arguments)
    assert failed.returncode == 2
    assert failed.stdout == ""
    assert failed.stderr.startswith(f"epicast: {message}")
    assert is_one_line(failed.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ["experiment", "run"],
        ["experiment", "run", "averages", "--claim", "T1"],
        ["experiment", "run", "averages", "--scale", "huge"],
        ["experiment", "run", "averages", "--jobs", "-1"],
        ["experiment", "frobnicate"],
        ["--frobnicate"],
    ],
)
def test_wrong_calls_are_status_2(arguments: list[str]) -> None:
    failed = epicast(*arguments)
    assert failed.returncode == 2
    assert "Traceback" not in failed.stderr and "Usage: epicast" in failed.stderr


def test_another_experiments_directory_is_not_touched(tmp_path: Path) -> None:
    assert epicast("experiment", "run", "averages", "--out", tmp_path).returncode == 0
    before = (tmp_path / "results.parquet").read_bytes()
    refused = epicast("experiment", "run", "gated", "--out", tmp_path, gate=tmp_path)
    assert refused.returncode == 2 and is_one_line(refused.stderr)
    assert "holds runs of 'averages'" in refused.stderr
    assert (tmp_path / "results.parquet").read_bytes() == before


def test_version_and_the_module_form() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "epicast", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("epicast ") and is_one_line(done.stdout)


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from epicast.cli import main; status = main(['experiment', 'run', '--help']); "
        "print(status, [m for m in ('numpy', 'pyarrow', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []"
