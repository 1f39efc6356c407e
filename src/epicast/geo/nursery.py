"""A process from which proxies are born ready to serve.

Loading a proxy's code takes more than a second of processor time. Here it is loaded once, and each
proxy is a fork of this process: a geoplex of three starts in the time of one, and the three share
the memory that the code takes. `python -m epicast.geo.nursery` is told what to do through stdin and
says what happens on stdout, one JSON object per line; `local.py` is who does that.

When stdin ends, so do all proxies, in good order, and then this process; so nothing outlives
whoever started it, however that ended.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
import traceback
from base64 import b64decode
from contextlib import suppress
from typing import NoReturn

import msgspec

from epicast.core import EpicastError
from epicast.deployment import Geoplex
from epicast.geo.births import Ended, Failed, Loaded, Ready, Report, Setup, Start
from epicast.geo.logs import configure_logs
from epicast.geo.proxy import ProxyService
from epicast.geo.warming import warm_up
from epicast.runtime import run
from epicast.runtime.services import serve

_MOST_TEXT = 1000
"""Of an error: a pipe takes lines of four kilobytes in one piece."""


class Commands:
    """Lines of stdin, as they come: nothing is read ahead that a fork would take with it."""

    def __init__(self) -> None:
        self.ended = False
        self._received = b""

    def fileno(self) -> int:
        return sys.stdin.fileno()

    def receive(self) -> None:
        some = os.read(self.fileno(), 65_536)
        self._received += some
        self.ended = not some

    def take(self) -> list[bytes]:
        *lines, self._received = self._received.split(b"\n")
        return lines

    def first(self) -> bytes:
        """The first line; empty if there is none."""
        while b"\n" not in self._received and not self.ended:
            self.receive()
        line, _, self._received = self._received.partition(b"\n")
        return line


class Nursery:
    def __init__(self, setup: Setup, commands: Commands) -> None:
        self._setup = setup
        self._commands = commands
        self._geoplex: Geoplex = pickle.loads(b64decode(setup.geoplex))
        self._children: dict[int, str] = {}
        self._lifeline, self._held = os.pipe()
        """Proxies end when nobody holds the second end any more: only this process does."""
        self._wakeup, self._woken = os.pipe()
        self._over = False

    def work(self) -> None:
        began = time.monotonic()
        warm_up()
        for end in (self._wakeup, self._woken):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_terminate)
        report(Loaded(time.monotonic() - began))
        commands = self._commands
        while not (self._over or commands.ended):
            for line in commands.take():
                self._start(msgspec.json.decode(line, type=Start).region)
            readable, _, _ = select.select([commands.fileno(), self._wakeup], [], [])
            if self._wakeup in readable:
                os.read(self._wakeup, 4096)
                self._reap()
            if commands.fileno() in readable:
                commands.receive()
        self._end()

    def _on_terminate(self, *_: object) -> None:
        self._over = True

    def _start(self, region: str) -> None:
        child = os.fork()
        if child:
            self._children[child] = region
        else:
            self._become_proxy(region)

    def _become_proxy(self, region: str) -> NoReturn:
        """In the fork; never returns into what the parent does."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            for descriptor in (self._held, self._wakeup, self._woken):
                os.close(descriptor)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, sys.stdin.fileno())
            os.close(nothing)
            configure_logs(self._setup.log_format, self._setup.log_level, region=region)
            status = run_proxy(self._geoplex, region, self._lifeline)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            code = os.waitstatus_to_exitcode(status)
            report(Ended(self._children.pop(pid), pid, code))

    def _end(self) -> None:
        os.close(self._held)
        deadline = time.monotonic() + self._setup.stop_timeout_s
        while self._children and (left := deadline - time.monotonic()) > 0:
            readable, _, _ = select.select([self._wakeup], [], [], left)
            if readable:
                os.read(self._wakeup, 4096)
            self._reap()
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        while self._children:
            pid, status = os.waitpid(-1, 0)
            report(Ended(self._children.pop(pid), pid, os.waitstatus_to_exitcode(status)))


def run_proxy(geoplex: Geoplex, region: str, lifeline: int) -> int:
    """Until it is told to stop; its exit status."""
    ready = False

    def is_ready() -> None:
        nonlocal ready
        ready = True
        report(Ready(region, os.getpid()))

    try:
        run(serve(ProxyService(geoplex, region), ready=is_ready, lifeline=lifeline))
    except (EpicastError, OSError) as error:
        if ready:
            print(f"epicast: {region}: {error}", file=sys.stderr, flush=True)
        else:
            report(Failed(region, str(error)[:_MOST_TEXT]))
        return 1
    return 0


def report(event: Report) -> None:
    """One short write, so that lines of different processes do not mix. Nobody need listen."""
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), msgspec.json.encode(event) + b"\n")


def main() -> int:
    # Ctrl-C goes to everybody at the terminal; who started this decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    commands = Commands()
    line = commands.first()
    if not line:
        return 0
    try:
        Nursery(msgspec.json.decode(line, type=Setup), commands).work()
    except EpicastError as error:
        report(Failed("", str(error)[:_MOST_TEXT]))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
