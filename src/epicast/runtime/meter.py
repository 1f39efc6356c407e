"""How much one connection may bring in a second."""

from __future__ import annotations

from epicast.runtime.limits import UNLIMITED, Limits

_SECOND = 1_000_000_000


class Meter:
    """A second's worth may come at once; whoever brings more is read on when it is paid for."""

    __slots__ = ("_bytes", "_bytes_per_second", "_messages", "_messages_per_second", "_then")

    def __init__(self, limits: Limits, now: int) -> None:
        self._messages_per_second = limits.max_messages_per_second
        self._bytes_per_second = limits.max_receive_bytes_per_second
        self._messages = float(self._messages_per_second)
        self._bytes = float(self._bytes_per_second)
        self._then = now

    @classmethod
    def wanted(cls, limits: Limits, now: int) -> Meter | None:
        """None where nothing is limited, which costs nothing."""
        if limits.max_messages_per_second >= UNLIMITED <= limits.max_receive_bytes_per_second:
            return None
        return cls(limits, now)

    def take(self, now: int, messages: int, size: int) -> int:
        """How many nanoseconds to wait before more is read."""
        passed = (now - self._then) / _SECOND
        self._then = now
        self._messages, wait = _spend(self._messages, self._messages_per_second, passed, messages)
        self._bytes, other = _spend(self._bytes, self._bytes_per_second, passed, size)
        return int(max(wait, other) * _SECOND)


def _spend(left: float, rate: int, passed: float, spent: int) -> tuple[float, float]:
    left = min(rate, left + passed * rate) - spent
    return left, -left / rate if left < 0 else 0.0
