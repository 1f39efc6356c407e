"""A clock that is off: by an offset from the start, and by a rate from then on."""

from __future__ import annotations

from math import ceil


class DriftingClock:
    """`rate` 0.01 gains 10 ms a second. Local time never runs backwards."""

    __slots__ = ("_offset", "_pace", "_since")

    def __init__(self, rate: float, since: int = 0, offset_ns: int = 0) -> None:
        if rate <= -1:
            raise ValueError(f"a clock with drift rate {rate} would stand still or run backwards")
        self._pace = 1.0 + rate
        self._since = since
        self._offset = since + offset_ns

    def local(self, now: int) -> int:
        return self._offset + int((now - self._since) * self._pace)

    def true(self, local: int) -> int:
        """The first instant at which the clock shows at least `local`."""
        instant = self._since + ceil((local - self._offset) / self._pace)
        while self.local(instant) < local:  # the division rounds, to either side
            instant += 1
        while self.local(instant - 1) >= local:
            instant -= 1
        return instant
