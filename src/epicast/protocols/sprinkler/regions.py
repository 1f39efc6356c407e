"""Acknowledgements that wait until other regions have an event, too."""

from __future__ import annotations

from epicast.core import NodeId
from epicast.protocols.sprinkler.ownership import Pending

_PREFIX = "regions="


def regions_of(level: str) -> int | None:
    """How many other regions a level asks for; None if it is no level there is."""
    if not level:
        return 0
    count = level.removeprefix(_PREFIX)
    if count == level or not count.isascii() or not count.isdecimal():
        return None
    return int(count)


class RegionalAcks:
    """How far the other proxies are in the streams owned here, and who waits for that."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._counters: dict[int, dict[NodeId, int]] = {}
        self._waiting: dict[int, list[Pending]] = {}

    def has_room(self, stream: int) -> bool:
        return len(self._waiting.get(stream, ())) < self._max_waiting

    def wait(self, stream: int, pending: Pending) -> bool:
        """Whether it has to wait."""
        if self._reached(stream, pending):
            return False
        self._waiting.setdefault(stream, []).append(pending)
        return True

    def heard(self, stream: int, proxy: NodeId, seq: int) -> list[Pending]:
        """A proxy has everything up to `seq`: what can be acknowledged now."""
        counters = self._counters.setdefault(stream, {})
        if seq <= counters.get(proxy, 0):
            return []
        counters[proxy] = seq
        waiting = self._waiting.get(stream)
        if not waiting:
            return []
        done = [pending for pending in waiting if self._reached(stream, pending)]
        if done:
            self._waiting[stream] = [p for p in waiting if not self._reached(stream, p)]
        return done

    def _reached(self, stream: int, pending: Pending) -> bool:
        counters = self._counters.get(stream, {})
        return sum(seq >= pending.seq for seq in counters.values()) >= pending.regions
