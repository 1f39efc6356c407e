"""Links between regions that fail at our word: relays in a process of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Literal, Self

from epicast.experiments.nemesis.geoplex import Ways
from epicast.experiments.parts import Leader, Part, Team
from epicast.runtime.relay import LinkRelay
from epicast.runtime.waiting import BackgroundLoop

Way = tuple[str, str]
Command = tuple[Literal["cut", "restore", "reset"], Way, Way]
"""What, the regions of those who connect and of those they reach, and which direction."""
_PATIENCE_S = 30.0


class Links:
    """From every region to every other, for each replica there."""

    def __init__(self, team: Team, regions: Sequence[str], replicas: int) -> None:
        self._regions = regions
        self._lock = threading.Lock()
        self._part: Part = team.start(relay, list(permutations(regions, 2)), replicas)
        self.ways: Ways = self._part.hear(_PATIENCE_S)

    def lead_to(self, targets: dict[str, list[tuple[str, int]]]) -> Self:
        """Where the replicas of each region really are."""
        self._ask(targets)
        return self

    def cut(self, directions: Iterable[Way], *, reset: bool = False) -> None:
        """Nothing passes from the first of each to the second, whoever of them has connected."""
        for source, target in directions:
            self._ask(("cut", (source, target), (source, target)))
            self._ask(("cut", (target, source), (source, target)))
            if reset:
                self._ask(("reset", (source, target), (source, target)))
                self._ask(("reset", (target, source), (source, target)))

    def restore(self, directions: Iterable[Way]) -> None:
        for source, target in directions:
            self._ask(("restore", (source, target), (source, target)))
            self._ask(("restore", (target, source), (source, target)))

    def _ask(self, command: object) -> None:
        with self._lock:
            self._part.tell(command)
            self._part.hear(_PATIENCE_S)


def relay(leader: Leader, ways: Sequence[Way], replicas: int) -> None:
    """The process: has the relays, and does as it is told."""
    loop = BackgroundLoop("links")
    relays = {way: [LinkRelay() for _ in range(replicas)] for way in ways}

    async def open_all() -> Ways:
        return {way: [await each.open() for each in relays[way]] for way in ways}

    async def do(command: Command) -> None:
        what, way, direction = command
        for each in relays[way]:
            if what == "reset":
                each.reset()
            elif what == "cut":
                each.cut(there=way == direction, back=way != direction)
            else:
                each.restore()

    leader.send(loop.run(open_all()))
    targets = leader.recv()
    for (_, target), several in relays.items():
        for each, where in zip(several, targets[target], strict=True):
            each.target = where
    leader.send("leads there")
    try:
        while True:
            loop.run(do(leader.recv()))
            leader.send("done")
    finally:
        loop.close()
