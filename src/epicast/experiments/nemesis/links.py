"""Links that fail at our word: relays in a process of their own.

There is one for each replica as every other region reaches it, and one, its *door*, for all who
reach it within its own region: other replicas, clients and agents.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any, TypeAlias

from epicast.experiments.nemesis.geoplex import Ways
from epicast.experiments.parts import Leader, Part, Team
from epicast.runtime.relay import LinkRelay
from epicast.runtime.waiting import BackgroundLoop

Way: TypeAlias = tuple[str, str]
"""From a region to another; or from nobody in particular to a replica."""
_PATIENCE_S = 30.0


class Links:
    def __init__(self, team: Team, replicas: Mapping[str, Sequence[str]]) -> None:
        """`replicas`: their names by region."""
        between = {way: len(replicas[way[1]]) for way in permutations(replicas, 2)}
        doors = {("", name): 1 for names in replicas.values() for name in names}
        self._lock = threading.Lock()
        self._part: Part = team.start(relay, {**between, **doors})
        ports: dict[Way, list[int]] = self._part.hear(_PATIENCE_S)
        self.ways: Ways = {way: ports[way] for way in between}
        self.doors = {name: ports["", name][0] for _, name in doors}

    def lead_to(self, places: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        """Where regions, with all their replicas, and single replicas really are."""
        self._ask(dict(places))

    def cut(self, directions: Iterable[Way], *, reset: bool = False) -> None:
        """Nothing passes from the first of each to the second, whoever of them has connected."""
        for source, target in directions:
            self._ask(("cut", (source, target), True, False))
            self._ask(("cut", (target, source), False, True))
            if reset:
                self._ask(("reset", (source, target)))
                self._ask(("reset", (target, source)))

    def restore(self, directions: Iterable[Way]) -> None:
        for source, target in directions:
            self._ask(("restore", (source, target)))
            self._ask(("restore", (target, source)))

    def cut_door(self, replica: str, *, there: bool, back: bool, reset: bool) -> None:
        """Nothing passes to the replica, from it, or both, of what others have connected to."""
        self._ask(("cut", ("", replica), there, back))
        if reset:
            self._ask(("reset", ("", replica)))

    def restore_door(self, replica: str) -> None:
        self._ask(("restore", ("", replica)))

    def _ask(self, command: object) -> None:
        with self._lock:
            self._part.tell(command)
            self._part.hear(_PATIENCE_S)


def relay(leader: Leader, counts: Mapping[Way, int]) -> None:
    """The process: has so many relays for each way, and does as it is told."""
    loop = BackgroundLoop("links")
    relays = {way: [LinkRelay() for _ in range(count)] for way, count in counts.items()}

    async def open_all() -> dict[Way, list[int]]:
        return {way: [await each.open() for each in several] for way, several in relays.items()}

    async def do(what: str, way: Way, *directions: bool) -> None:
        for each in relays[way]:
            if what == "reset":
                each.reset()
            elif what == "cut":
                there, back = directions
                each.cut(there=there, back=back)
            else:
                each.restore()

    leader.send(loop.run(open_all()))
    places: Mapping[str, Any] = leader.recv()
    for (_, target), several in relays.items():
        for each, place in zip(several, places[target], strict=True):
            each.target = place
    leader.send("leads there")
    try:
        while True:
            loop.run(do(*leader.recv()))
            leader.send("done")
    finally:
        loop.close()
