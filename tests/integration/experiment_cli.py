"""`epicast experiment` in processes of its own, with tiny experiments."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.unit.experiments.synthetic import GATE

ROOT = Path(__file__).parents[2]
LAUNCH = """
import sys
from epicast.cli import main
from tests.unit.experiments.synthetic import registry
sys.exit(main(sys.argv[1:], experiments=registry()))
"""
PATIENCE_SECONDS = 90.0


def command(*arguments: object, script: str = LAUNCH) -> list[str]:
    return [sys.executable, "-c", script, *map(str, arguments)]


def environment(gate: Path | None) -> dict[str, str]:
    return {**os.environ, GATE: str(gate), "COLUMNS": "200"}


def epicast(
    *arguments: object, gate: Path | None = None, script: str = LAUNCH
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments, script=script),
        cwd=ROOT,
        env=environment(gate),
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
            env=environment(gate),
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
