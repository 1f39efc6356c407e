"""`epicast lake run` as a process that can be watched, and whose driver can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from epicast.pipeline.lake.supervisor import read_state
from tests.pipeline.processes import descendants


class Run:
    """`epicast lake run --json`, until it is interrupted."""

    def __init__(self, lake: Path, address: str, *options: str) -> None:
        self.lake = lake
        command = [sys.executable, "-m", "epicast", "lake", "run", "--lake", str(lake)]
        command += ["--proxy", address, "--master", "local[2]", "--interval", "0.1"]
        command += ["--max-events", "700", "--json", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def reports(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)
        raise AssertionError(f"it ended: {self.process.communicate()}")

    def next(self, kind: str) -> dict[str, Any]:
        return next(report for report in self.reports() if report["type"] == kind)

    def wait_for(self, stream: str, seq: int) -> None:
        for report in self.reports():
            if report["type"] == "batch" and report["committed"]["watermarks"][stream][1] >= seq:
                return

    def kill_driver(self) -> None:
        state = read_state(self.lake)
        assert state is not None
        os.kill(state.driver, signal.SIGKILL)

    def kill_java(self) -> None:
        """And not the driver, which has lost its Spark."""
        state = read_state(self.lake)
        assert state is not None
        (java,) = (each for each in descendants(state.driver) if each.name == "java")
        os.kill(java.pid, signal.SIGKILL)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()
        return self.process.returncode
