"""Processes that do their part of a measurement, each led through a pipe.

    with Team() as team:
        part = team.start(count, "apples")      # def count(leader: Connection, what: str) -> None
        part.tell(3)
        print(part.hear(10.0))

Every wait is bounded. What was started has ended when the team is left, whatever happens; a part
whose leader has died finds the pipe at its end.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self, TypeAlias

from epicast.core.errors import EpicastError

Leader: TypeAlias = "Connection[Any, Any]"
_STOP_SECONDS = 5.0


class PartFailed(EpicastError):
    """A process ended early, raised something, or stayed silent."""


class Failure:
    """What a part that raised something says last."""

    def __init__(self, text: str) -> None:
        self.text = text


class Part:
    def __init__(self, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._name = function.__name__
        self._process = context.Process(target=_play, args=(theirs, function, arguments))
        self._process.daemon = True
        self._process.start()
        theirs.close()  # or the end of the part would not end the pipe

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    def tell(self, value: Any) -> None:
        try:
            self._pipe.send(value)
        except BrokenPipeError:
            raise PartFailed(f"{self._name} has ended") from None

    def hear(self, timeout_s: float) -> Any:
        if not self._pipe.poll(timeout_s):
            raise PartFailed(f"{self._name} said nothing for {timeout_s:g} s")
        try:
            value = self._pipe.recv()
        except (EOFError, OSError):
            raise PartFailed(f"{self._name} has ended") from None
        if isinstance(value, Failure):
            raise PartFailed(f"{self._name} failed\n{value.text}")
        return value

    def stop(self) -> None:
        """End it: politely at first."""
        self._pipe.close()
        self._process.join(_STOP_SECONDS)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self._process.close()


class Team:
    def __init__(self) -> None:
        self._parts: list[Part] = []

    def start(self, function: Callable[..., None], *arguments: Any) -> Part:
        """Call `function` with its end of the pipe and the arguments in a process of its own."""
        part = Part(function, arguments)
        self._parts.append(part)
        return part

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for part in reversed(self._parts):
            part.stop()


def _play(leader: Leader, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    try:
        function(leader, *arguments)
    except (EOFError, KeyboardInterrupt):
        pass  # nobody leads any more
    except BaseException:
        with suppress(OSError):
            leader.send(Failure(traceback.format_exc()))
