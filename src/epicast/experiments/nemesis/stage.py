"""All processes of a run, and what can be done to each of them.

Used by several threads: one for each lane of the schedule.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from epicast.core import EpicastError
from epicast.experiments.nemesis import disks
from epicast.experiments.nemesis.links import Links, Way
from epicast.experiments.nemesis.schedule import Cast, Fault, Kind
from epicast.experiments.parts import Part
from epicast.geo.local import LocalGeoplex
from epicast.geo.status import ask_status
from epicast.runtime import run as run_loop

Say = Callable[[str], object]
_LOOK_EVERY_S = 0.05
_ASK_S = 1.0
_ASK_EVERY_S = 0.4
START_S = 60.0
_STOP_S = 20.0
_SIGNALS = {
    Kind.KILL: signal.SIGKILL, Kind.RESTART: signal.SIGTERM, Kind.PAUSE: signal.SIGSTOP,
}  # fmt: skip
_WAYS_TO_CUT = {
    "nothing passes": (True, True, False),
    "connections end": (True, True, True),
    "it does not hear": (True, False, False),
    "it is not heard": (False, True, False),
}


class StageError(EpicastError):
    """Something that was mistreated is not well again in time."""


class Clients:
    """Publishers, subscribers and sidecars by name, each a process that can be started again."""

    def __init__(self, start: Callable[[str], Part]) -> None:
        self._start = start
        self.parts: dict[str, Part] = {}

    def begin(self, name: str) -> None:
        """Start it, once the process that had its place has ended."""
        deadline = time.monotonic() + _STOP_S
        while name in self.parts and self.parts[name].is_running:
            if time.monotonic() > deadline:
                raise StageError(f"{name} did not end within {_STOP_S:g} s")
            time.sleep(_LOOK_EVERY_S)
        self.parts[name] = self._start(name)

    def signal(self, name: str, number: signal.Signals) -> None:
        """`PartFailed`, which says why, if it has ended by itself."""
        part = self.parts[name]
        if not part.is_running:
            part.hear(0.0)
            raise StageError(f"{name} has ended by itself")
        os.kill(part.pid, number)


class Stage:
    def __init__(
        self, cast: Cast, local: LocalGeoplex, links: Links, clients: Clients, say: Say
    ) -> None:
        self._cast = cast
        self._local = local
        self._lock = threading.Lock()
        self._links = links
        self._clients = clients
        self._say = say
        self._up = {replica.name for replica in local.geoplex.replicas}
        """Those that should be running."""
        self.deaths: list[str] = []
        """Replicas that ended though nobody had asked them to."""

    # -- the schedule ----------------------------------------------------------------------------

    def begin(self, fault: Fault) -> None:
        target, kind = fault.target, fault.kind
        if target in self._clients.parts:
            self._clients.signal(target, _SIGNALS[kind])
        elif kind in (Kind.SWALLOW, Kind.BREAK, Kind.ONE_WAY, Kind.ISOLATE):
            self._links.cut(self._directions(fault), reset=kind is Kind.BREAK)
        elif kind is Kind.PAUSE:
            os.kill(self._pid(target), signal.SIGSTOP)
        elif kind is Kind.FULL:
            disks.fill(self._pid(target))
        elif kind is Kind.CUT_OFF:
            how = Random(fault.seed).choice(list(_WAYS_TO_CUT))
            self._say(f"{target}: {how}")
            there, back, reset = _WAYS_TO_CUT[how]
            self._links.cut_door(target, there=there, back=back, reset=reset)
        elif kind is Kind.BLACKOUT:
            self._end(self._cast.replicas_of(target), signal.SIGKILL)
        else:
            self._end([target], signal.SIGTERM if kind is Kind.RESTART else signal.SIGKILL)
            if kind is Kind.WIPE:
                disks.wipe(self._data(target))
            elif kind is Kind.CORRUPT:
                self._say(f"{target}: {disks.corrupt(self._data(target), fault.seed)}")

    def mend(self, fault: Fault) -> None:
        target, kind = fault.target, fault.kind
        if target in self._clients.parts:
            if kind is Kind.PAUSE:
                self._clients.signal(target, signal.SIGCONT)
            else:
                self._clients.begin(target)
        elif kind in (Kind.SWALLOW, Kind.BREAK, Kind.ONE_WAY, Kind.ISOLATE):
            self._links.restore(self._directions(fault))
        elif kind is Kind.PAUSE:
            os.kill(self._pid(target), signal.SIGCONT)
        elif kind is Kind.FULL:
            with suppress(ProcessLookupError):  # it ended by itself, which is noted elsewhere
                disks.free(self._pid(target))
        elif kind is Kind.CUT_OFF:
            self._links.restore_door(target)
        elif kind is Kind.BLACKOUT:
            self._start(self._cast.replicas_of(target))
        else:
            self._start([target])

    def _directions(self, fault: Fault) -> list[Way]:
        if fault.kind is Kind.ISOLATE:
            pairs = [(fault.target, other) for other in self._cast.regions if other != fault.target]
        else:
            source, _, target = fault.target.partition("-")
            pairs = [(source, target)]
        if fault.kind is Kind.ONE_WAY:
            return pairs
        return pairs + [(target, source) for source, target in pairs]

    # -- replicas --------------------------------------------------------------------------------

    def wait_whole(self, region: str, patience_s: float, over: Callable[[], bool]) -> float:
        """Until all its replicas are in its chain; how long that took. `over`: nobody waits."""
        began = time.monotonic()
        while not self.is_whole(region):
            if over():
                break
            if time.monotonic() - began > patience_s:
                raise StageError(f"the chain of {region} is not whole after {patience_s:g} s")
            time.sleep(_ASK_EVERY_S)
        return time.monotonic() - began

    def is_whole(self, region: str) -> bool:
        replicas = self._local.geoplex.region(region).replicas
        running = self._processes()
        if any(replica.name not in running for replica in replicas):
            return False
        if len(replicas) == 1:
            return True
        try:
            places = [
                run_loop(ask_status(*replica.listen, timeout=_ASK_S)).protocol["chain_place"]
                for replica in replicas
            ]
        except (EpicastError, OSError, TimeoutError):
            return False
        return sorted(places) == list(range(len(replicas)))

    def revive(self) -> None:
        """Start again whoever has ended by itself, and remember that it did."""
        with self._lock:
            running = self._local.processes
            dead = sorted(self._up - running.keys())
            for name in dead:
                self._up.discard(name)
        for name in dead:
            self.deaths.append(name)
            self._say(f"{name} has ended by itself")
            self._start([name])

    def _processes(self) -> dict[str, int]:
        with self._lock:
            return dict(self._local.processes)

    def _pid(self, name: str) -> int:
        pid = self._processes().get(name)
        if pid is None:
            raise ProcessLookupError(name)
        return pid

    def _data(self, name: str) -> Path:
        data = self._local.geoplex.replica(name)[1].data
        assert data is not None
        return Path(data)

    def _end(self, names: Sequence[str], number: signal.Signals) -> None:
        with self._lock:
            self._up -= {*names}
        pids = [self._pid(name) for name in names]
        for pid in pids:
            os.kill(pid, number)
        deadline = time.monotonic() + _STOP_S
        while any(name in self._processes() for name in names):
            if time.monotonic() > deadline:
                raise StageError(f"{' '.join(names)} did not end within {_STOP_S:g} s")
            time.sleep(_LOOK_EVERY_S)

    def _start(self, names: Sequence[str]) -> None:
        with self._lock:
            for name in names:
                self._local.launch(name)
        deadline = time.monotonic() + START_S
        while any(name not in self._processes() for name in names):
            if time.monotonic() > deadline:
                raise StageError(f"{' '.join(names)} did not start within {START_S:g} s")
            time.sleep(_LOOK_EVERY_S)
        with self._lock:
            self._up |= {*names}
