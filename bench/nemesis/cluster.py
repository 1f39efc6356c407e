"""Three servers of another system, and what the nemesis does to them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from epicast.experiments.nemesis.schedule import Fault, Kind

REGION = "us"
_STOP_S = 20.0
_LOOK_S = 0.2


class System(Protocol):
    """How servers are started, and when they are well."""

    folder: Path

    def command(self, number: int) -> list[str]: ...

    def data(self, number: int) -> Path: ...

    def is_whole(self) -> bool: ...


class Cluster:
    """Servers 1, 2 and 3, called as the replicas of a chain are. A context."""

    def __init__(self, system: System, count: int = 3) -> None:
        self._system = system
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self._numbers = range(1, count + 1)

    def __enter__(self) -> Cluster:
        for number in self._numbers:
            self._start(number)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def wait_whole(
        self, region: str, patience_s: float, over: Callable[[], bool] = lambda: False
    ) -> float:
        began = time.monotonic()
        while not over():
            if self._system.is_whole():
                break
            if time.monotonic() - began > patience_s:
                raise OSError(f"not all servers are back after {patience_s:g} s")
            time.sleep(_LOOK_S)
        return time.monotonic() - began

    def begin(self, fault: Fault) -> None:
        if fault.kind is Kind.PAUSE:
            os.kill(self.running[_number(fault)].pid, signal.SIGSTOP)
        elif fault.kind is Kind.BLACKOUT:
            self._end(self._numbers, signal.SIGKILL)
        else:
            number = _number(fault)
            graceful = fault.kind is Kind.RESTART
            self._end([number], signal.SIGTERM if graceful else signal.SIGKILL)
            if fault.kind is Kind.WIPE:
                shutil.rmtree(self._system.data(number))

    def mend(self, fault: Fault) -> None:
        if fault.kind is Kind.PAUSE:
            os.kill(self.running[_number(fault)].pid, signal.SIGCONT)
        elif fault.kind is Kind.BLACKOUT:
            for number in self._numbers:
                self._start(number)
        else:
            self._start(_number(fault))

    def _start(self, number: int) -> None:
        self._system.data(number).mkdir(parents=True, exist_ok=True)
        errors = self._system.folder / f"server-{number}.log"
        with errors.open("ab") as log:
            self.running[number] = subprocess.Popen(
                self._system.command(number), stdout=log, stderr=log, cwd=self._system.folder
            )

    def _end(self, numbers: Sequence[int], how: signal.Signals) -> None:
        processes = [self.running.pop(number) for number in numbers]
        for process in processes:
            process.send_signal(how)
        for process in processes:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _number(fault: Fault) -> int:
    return int(fault.target.partition("/")[2])
