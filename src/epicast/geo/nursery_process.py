"""The side of whoever runs a nursery: see `nursery.py`."""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections import deque
from contextlib import suppress
from typing import IO

import msgspec

from epicast.core import EpicastError
from epicast.deployment import Geoplex
from epicast.geo.births import Ended, Loaded, Ready, Report, Setup, Start
from epicast.geo.logs import LogFormat

_EXIT_MARGIN_S = 5.0


class StartFailed(EpicastError):
    """A proxy could not be started, or not in time; the message says why."""


class NurseryProcess:
    def __init__(
        self,
        geoplex: Geoplex,
        log_format: LogFormat,
        log_level: str,
        stop_timeout_s: float,
        errors: IO[bytes] | None = None,
    ) -> None:
        self.pids: dict[str, int] = {}
        """Of the proxies that run, by region."""
        self._stop_timeout_s = stop_timeout_s
        self._loaded = False
        self._lines: deque[Report] = deque()
        self._partial = b""
        # The numerical library's threads are of no use to a proxy, and do not survive a fork.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "epicast.geo.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            env=environment,
        )
        pickled = b64encode(pickle.dumps(geoplex)).decode()
        self._tell(Setup(pickled, log_format, log_level, stop_timeout_s))

    def start(self, region: str) -> None:
        """Ask for a proxy; `Ready`, `Failed` or `Ended` is the answer."""
        self._tell(Start(region))

    def next_report(self, timeout_s: float) -> Report | None:
        """What happened next, if anything did in time; `StartFailed` once there is nobody left."""
        if not self._lines:
            self._read(timeout_s)
        if not self._lines:
            return None
        report = self._lines.popleft()
        if isinstance(report, Ready):
            self.pids[report.region] = report.pid
        elif isinstance(report, Ended) and self.pids.get(report.region) == report.pid:
            del self.pids[report.region]
        self._loaded = self._loaded or isinstance(report, Loaded)
        return report

    def _read(self, timeout_s: float) -> None:
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_s
        while not self._lines:
            left = max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select([self._process.stdout], [], [], left)
            if not readable:
                return
            some = os.read(self._process.stdout.fileno(), 65_536)
            if not some:
                raise StartFailed(
                    "the process that proxies are started from has ended; what it wrote to stderr "
                    "says why"
                )
            *lines, self._partial = (self._partial + some).split(b"\n")
            self._lines += [msgspec.json.decode(line, type=Report) for line in lines]

    def _tell(self, message: Setup | Start) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")
        except BrokenPipeError:
            raise StartFailed("the process that proxies are started from has ended") from None

    def close(self) -> None:
        """Stop everything in good order; kill what does not stop in time, or at an interruption."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        if not self._loaded:
            process.terminate()  # nothing was born yet
        try:
            process.wait(self._stop_timeout_s + _EXIT_MARGIN_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._kill()

    def _kill(self) -> None:
        process = self._process
        assert process.stdout is not None
        process.kill()
        process.wait()
        with suppress(EpicastError):
            while self.next_report(0):
                pass
        for pid in self.pids.values():  # those the nursery could not end any more
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.pids.clear()
        process.stdout.close()
