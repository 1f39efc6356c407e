"""The schedule comes true: a thread for each lane."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Protocol as Interface

from epicast.core import EpicastError
from epicast.experiments.nemesis.schedule import Fault
from epicast.experiments.nemesis.stage import Say

WHOLE_S = 60.0
"""How long a chain may take to be whole again."""
_LOOK_EVERY_S = 0.02


class Mistreated(Interface):
    """What faults are done to."""

    def begin(self, fault: Fault) -> None: ...

    def mend(self, fault: Fault) -> None: ...

    def wait_whole(self, region: str, patience_s: float, over: Callable[[], bool]) -> float:
        """Until everybody is back; how long that took. `over`: nobody waits any more."""
        ...


class Lanes:
    def __init__(
        self,
        stage: Mistreated,
        schedule: Sequence[Fault],
        regions: Sequence[str],
        began: float,
        say: Say,
    ) -> None:
        self.done: list[Fault] = []
        self.troubles: list[str] = []
        """What did not become well again, or could not be done."""
        self._stage = stage
        self._regions = regions
        self._began = began
        self._say = say
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=([f for f in schedule if f.lane == lane],))
            for lane in sorted({fault.lane for fault in schedule})
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    @property
    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def finish(self) -> None:
        """Nothing new begins; what has begun is mended."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, faults: list[Fault]) -> None:
        for _, strike in groupby(faults, lambda fault: fault.strike):
            try:
                if not self._strike(list(strike)):
                    return
            except (EpicastError, OSError) as error:
                self.troubles.append(f"{error}")
                self._say(f"TROUBLE: {error}")

    def _strike(self, faults: list[Fault]) -> bool:
        """False if nothing more is to begin."""
        lane = faults[0].lane
        self._wait_until(faults[0].at_s)
        if lane in self._regions:
            self._stage.wait_whole(lane, WHOLE_S, self._over.is_set)
        if self._over.is_set():
            return False
        began = self._now() - faults[0].at_s
        steps: list[tuple[float, Callable[[Fault], None], Fault, str]] = []
        for fault in faults:
            steps.append((began + fault.at_s, self._stage.begin, fault, "begins"))
            steps.append((began + fault.at_s + fault.for_s, self._stage.mend, fault, "is mended"))
        begun: set[int] = set()
        try:
            for at, step, fault, what in sorted(steps, key=lambda step: step[0]):
                # What is not begun yet need not begin any more; what is, is mended at once.
                self._wait_until(at)
                if what == "begins":
                    if self._over.is_set():
                        continue
                    begun.add(id(fault))
                    self._say(f"{fault.kind} {fault.target} for {fault.for_s:.1f} s")
                elif id(fault) not in begun:
                    continue
                step(fault)
                if what == "is mended":
                    begun.discard(id(fault))
                    self.done.append(fault)
        finally:
            for fault in faults:
                if id(fault) in begun:
                    self._stage.mend(fault)
        return True

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _wait_until(self, at_s: float) -> None:
        while (left := at_s - self._now()) > 0 and not self._over.is_set():
            self._over.wait(max(_LOOK_EVERY_S, min(left, 1.0)))
