"""Processes that do their part of a measurement, led by lines of JSON.

A part is a function of one of our modules. It talks to whoever started it by `tell` and `hear`. A
`Team` starts parts and, whatever happens, ends them; every wait is bounded.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
_STOP_SECONDS = 5.0
_MAX_LINE = 1 << 26


class PartFailed(RuntimeError):
    """A process ended early or stayed silent; says what it wrote to stderr."""


def tell(value: Any) -> None:
    """From a part to the team."""
    print(json.dumps(value), flush=True)


def hear() -> Any:
    """What the team says next; ends the process if there is no team any more."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(1)
    return json.loads(line)


def play(parts: Mapping[str, Callable[..., None]]) -> None:
    """The main program of a module with parts: its arguments are the part and its arguments."""
    parts[sys.argv[1]](*map(json.loads, sys.argv[2:]))


def _die_with_us() -> list[str]:
    """A killed benchmark cannot clean up: the kernel does. Without setpriv, nobody does."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


class Part:
    """A started process."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], errors: Path) -> None:
        self.name = name
        self.process = process
        self._errors = errors
        self._pending = b""

    def tell(self, value: Any) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(value).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._failure("has ended") from None

    def hear(self, timeout_s: float) -> Any:
        assert self.process.stdout is not None
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise self._failure(f"said nothing for {timeout_s:.0f} s")
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece or len(self._pending) > _MAX_LINE:
                raise self._failure("has ended")
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return json.loads(line)

    def stop(self) -> None:
        """End it: politely at first."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # it went before it read everything
                    stream.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _failure(self, what: str) -> PartFailed:
        return PartFailed(f"{self.name} {what}\n{self._errors.read_text(errors='replace')[-4000:]}")


class Team:
    """A context: what it started has ended when it is left, and its folder is gone."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="rival-")))
        self._parts: list[Part] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for part in reversed(self._parts):
                part.stop()
        finally:
            self._stack.close()

    def start(self, module: str, part: str, *arguments: Any) -> Part:
        """A part of one of our modules."""
        command = [sys.executable, "-m", module, part, *map(json.dumps, arguments)]
        return self.run(f"{module} {part}", command)

    def run(self, name: str, command: list[str]) -> Part:
        """Any program; it runs in the team's folder if it is not one of ours."""
        errors = self.folder / f"{len(self._parts)}.err"
        ours = command[0] == sys.executable
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                [*_die_with_us(), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if ours else stderr,
                stderr=stderr,
                cwd=ROOT if ours else self.folder,
            )
        self._parts.append(Part(name, process, errors))
        return self._parts[-1]
