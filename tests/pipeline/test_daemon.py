"""Workers that are let go leave without a word; any other trouble is still told."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from pyspark import daemon

def worker(sock, authenticated):
    raise {error}("in a worker")

daemon.worker = worker
daemon.manager = lambda: daemon.worker(None, True)
from epicast.pipeline.daemon import main
main()
"""


@pytest.mark.parametrize(("error", "told"), [("BrokenPipeError", False), ("ValueError", True)])
def test_who_is_let_go_says_nothing(error: str, told: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(error=error)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (bool(done.returncode), bool(done.stderr)) == (told, told)
    assert ("ValueError: in a worker" in done.stderr) == told
