"""Keeps an ingestion going: whatever ends the driver, another one follows.

An outage is nothing special: the proxy is away, the JVM was killed, a worker crashed, the disk is
full. The driver ends, says why if it still can, and is started again after a pause that grows while
nothing is achieved. What cannot get better by waiting ends it all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from epicast.pipeline.lake.driver_reports import Batch, Failure, Report
from epicast.pipeline.lake.errors import LakeError
from epicast.pipeline.lake.ingestion_options import IngestionOptions
from epicast.pipeline.lake.tables import write_whole

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_GOODBYE_S = 20.0
_STATE = "run.json"
_LOG = "driver.log"
_reports: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


class IngestionFailed(LakeError):
    """The driver says that trying again would not help."""


class Restarting(Struct, frozen=True):
    """The driver has ended and is going to be replaced."""

    error: str
    pause_s: float
    restarts: int


class RunState(Struct, frozen=True, kw_only=True):
    """run.json: how the supervisor is, or was."""

    pid: int
    driver: int
    started: str
    restarts: int = 0
    last_error: str = ""
    last_error_at: str = ""


class Supervisor:
    """`run` returns when all is done, which with `once` is some day; `tell` hears of it all."""

    def __init__(
        self,
        options: IngestionOptions,
        tell: Callable[[Report | Restarting], object],
        *,
        longest_pause_s: float = _LONGEST_PAUSE_S,
    ) -> None:
        self._options = options
        self._folder = Path(options.lake)
        self._tell = tell
        self._longest_pause_s = longest_pause_s
        self._state = RunState(pid=os.getpid(), driver=0, started=_now())

    def run(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            failure, achieved = self._run_driver()
            if failure is None:
                return
            if failure.final:
                raise IngestionFailed(failure.error)
            pause = _FIRST_PAUSE_S if achieved else min(2 * pause, self._longest_pause_s)
            restarts = self._state.restarts + 1
            self._note(restarts=restarts, last_error=failure.error, last_error_at=_now())
            self._tell(Restarting(failure.error, pause, restarts))
            time.sleep(pause)

    def _run_driver(self) -> tuple[Failure | None, bool]:
        """Why it ended, if it should not have; and whether it had got anywhere."""
        failure: Failure | None = None
        achieved = False
        with self._log() as log:
            process = self._start(log)
            try:
                self._note(driver=process.pid)
                for report in _read(process):
                    if isinstance(report, Failure):
                        failure = report
                        continue
                    achieved |= isinstance(report, Batch)
                    self._tell(report)
                status = process.wait()
            finally:
                _end(process)
        if status and failure is None:
            failure = Failure(_ended(status), False)
        return failure, achieved

    def _start(self, log: IO[bytes] | None) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C is for us, and what the driver starts can be ended with it.
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "epicast.pipeline.lake.driver",
                msgspec.json.encode(self._options).decode(),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )

    def _log(self) -> _Log:
        return _Log(None if os.environ.get("EPICAST_SPARK_LOGS") else self._folder / _LOG)

    def _note(self, **changes: int | str) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)
        # `lake status` shows this. It must not end what goes on once a full disk has room again.
        with suppress(OSError):
            write_whole(self._folder / _STATE, msgspec.json.encode(self._state))


class _Log:
    """What Spark says, of the driver at work; nobody reads it unless something is wrong."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("wb")

    def __enter__(self) -> IO[bytes] | None:
        return self._file

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def read_state(folder: Path) -> RunState | None:
    try:
        return msgspec.json.decode((folder / _STATE).read_bytes(), type=RunState)
    except (OSError, msgspec.MsgspecError):
        return None


def _read(process: subprocess.Popen[bytes]) -> Iterator[Report]:
    assert process.stdout is not None
    for line in process.stdout:
        yield _reports.decode(line)


def _end(process: subprocess.Popen[bytes]) -> None:
    """In good order if it still can; and nothing it has started outlives it."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_GOODBYE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def _ended(status: int) -> str:
    if status < 0:
        return f"the driver was ended by {signal.Signals(-status).name}"
    return f"the driver ended with status {status}; {_LOG} in the lake's folder may say why"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
