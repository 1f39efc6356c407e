"""A limit on the bytes a protocol sends per second."""

from __future__ import annotations

from epicast.core import NEVER

_SECOND = 1_000_000_000


class ByteBudget:
    """A token bucket that holds at most one second's worth. What is spent in any interval is at
    most the rate times its length, and one bucket more."""

    __slots__ = ("_bytes_per_s", "_filled_at", "_tokens", "spent", "withheld")

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._tokens = bytes_per_s
        self._filled_at = 0
        self.spent = 0
        self.withheld = 0
        """Bytes that were not sent for want of tokens."""

    @property
    def limited(self) -> bool:
        return self._bytes_per_s > 0

    def available(self, now: int) -> int:
        """Bytes that may be sent now."""
        if not self._bytes_per_s:
            return NEVER
        earned = (now - self._filled_at) * self._bytes_per_s // _SECOND
        if earned > 0:
            self._tokens = min(self._bytes_per_s, self._tokens + earned)
            self._filled_at = now
        return self._tokens

    def copies(self, now: int, size: int, wanted: int) -> int:
        """How many messages of `size` bytes may be sent, of those wanted; they are paid for."""
        if not self._bytes_per_s:
            return wanted
        granted = min(wanted, self.available(now) // size)
        self._tokens -= granted * size
        self.spent += granted * size
        self.withheld += (wanted - granted) * size
        return granted
