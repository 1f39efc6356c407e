"""Acknowledgements that wait until other regions have an event, too."""

from __future__ import annotations

from epicast.core import NodeId
from epicast.protocols.sprinkler.ownership import Pending

_PREFIX = "regions="
_DIGITS = 9
"""The most digits of a count of regions. Python refuses to parse thousands of them."""


def regions_of(level: str) -> int | None:
    """How many other regions a level asks for; None if it is no level there is."""
    if not level:
        return 0
    count = level.removeprefix(_PREFIX)
    if count == level or not count.isascii() or not count.isdecimal() or len(count) > _DIGITS:
        return None
    return int(count)


class RegionalAcks:
    """How far the other proxies are in the streams owned here, and who waits for that.

    An acknowledgement speaks for everything of its publisher before it. So those that ask for less
    wait behind those of the same publisher that ask for more.
    """

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._counters: dict[int, dict[NodeId, int]] = {}
        self._waiting: dict[int, list[Pending]] = {}

    def has_room(self, stream: int, publisher: int, regions: int) -> bool:
        """Whether a publication that may have to wait can."""
        waiting = self._waiting.get(stream)
        if not waiting or len(waiting) < self._max_waiting:
            return True
        return not regions and all(pending.publisher != publisher for pending in waiting)

    def wait(self, stream: int, pending: Pending) -> bool:
        """Whether it has to wait."""
        waiting = self._waiting.get(stream)
        if self._reached(stream, pending) and not (
            waiting and any(before.publisher == pending.publisher for before in waiting)
        ):
            return False
        self._waiting.setdefault(stream, []).append(pending)
        return True

    def heard(self, stream: int, proxy: NodeId, seq: int) -> list[Pending]:
        """A proxy has everything up to `seq`: what can be acknowledged now."""
        counters = self._counters.setdefault(stream, {})
        if seq <= counters.get(proxy, 0):
            return []
        counters[proxy] = seq
        done: list[Pending] = []
        kept: list[Pending] = []
        held_up: set[int] = set()
        for pending in self._waiting.get(stream, ()):
            if pending.publisher not in held_up and self._reached(stream, pending):
                done.append(pending)
            else:
                held_up.add(pending.publisher)
                kept.append(pending)
        if done:
            self._waiting[stream] = kept
        return done

    def begin_epoch(self, stream: int) -> None:
        self._counters.pop(stream, None)

    def retire(self, stream: int) -> list[Pending]:
        """Who waits is to ask somebody else."""
        return self._waiting.pop(stream, [])

    def forget(self, stream: int) -> None:
        """What was heard of it may have been of an epoch that was lost."""
        self._counters.pop(stream, None)

    def _reached(self, stream: int, pending: Pending) -> bool:
        if not pending.regions:
            return True
        counters = self._counters.get(stream, {})
        return sum(seq >= pending.seq for seq in counters.values()) >= pending.regions
