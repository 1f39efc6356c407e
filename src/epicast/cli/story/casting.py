"""Processes of the demonstration, and what they have last said."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from types import TracebackType
from typing import Self

import msgspec

from epicast.cli.story.parts import CacheReport, DatabaseReport, Report, Task, Until
from epicast.core import EpicastError

_STOP_S = 5.0


class PartEnded(EpicastError):
    """A process of the demonstration ended before its part was over."""


class Cast:
    """A context: everything it started has ended when it is left."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._pending: dict[str, bytes] = {}
        self._delays: dict[str, list[int]] = {}
        self.caches: dict[str, CacheReport] = {}
        self.database = DatabaseReport()

    def start(self, name: str, task: Task) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "epicast.cli.story.parts"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._processes[name] = process
        self._pending[name] = b""
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, name)
        self._tell(process, msgspec.json.encode(task))
        for cache in task.caches:
            self.caches[cache.name] = CacheReport(cache.name)

    def finish(self, heads: dict[str, int]) -> None:
        """Everything was published: caches end when they have it all."""
        for process in self._processes.values():
            if process.poll() is None:
                self._tell(process, msgspec.json.encode(Until(heads)))

    def listen(self, seconds: float) -> None:
        """Take in what is said until the time has passed."""
        for key, _ in self._selector.select(seconds):
            data = os.read(key.fd, 1 << 20)
            if not data:
                self._selector.unregister(key.fileobj)
                continue
            *lines, rest = (self._pending[key.data] + data).split(b"\n")
            self._pending[key.data] = rest
            for line in lines:
                self._take(msgspec.json.decode(line, type=Report))
        for name, process in self._processes.items():
            if process.poll():
                raise PartEnded(f"the process of {name} ended with status {process.returncode}")

    def _take(self, report: Report) -> None:
        for cache in report.caches:
            self._delays.setdefault(cache.name, []).extend(cache.delays_us)
            self.caches[cache.name] = cache
        if report.database is not None:
            self.database = report.database

    def delays_us(self, *, without: set[str]) -> list[int]:
        return [d for name, delays in self._delays.items() if name not in without for d in delays]

    @staticmethod
    def _tell(process: subprocess.Popen[bytes], line: bytes) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise PartEnded(f"process {process.pid} ended early") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._selector.close()
