"""Ctrl-C while a workload is generated, in a real process: it stops, and the next run goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from epicast.pipeline.workloads.files import EVENTS, read_facts
from epicast.pipeline.workloads.manifest import FILE, PLAN
from tests.cli.conftest import LAUNCH

PATIENCE_S = 200.0


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    out = tmp_path / "out"
    call = ["workload", "generate", "zipf", "--events", "2e8", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, *call, "--master", "local[2]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not list(out.glob(f"{EVENTS}/part-*")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, said
    assert "start again to go on" in said
    assert "java" not in said.lower() and "py4j" not in said.lower()
    assert (out / PLAN).exists() and not (out / FILE).exists()
    for path in out.glob(f"{EVENTS}/part-*"):
        assert read_facts(path).rows == 1 << 20
