"""A limit on the bytes a protocol sends per second."""

from __future__ import annotations

from epicast.core import NEVER
from epicast.core.message import LAYER_BYTES, MAX_LAYERS
from epicast.wire import DATAGRAM_HEADER_BYTES

ENVELOPE_BYTES = DATAGRAM_HEADER_BYTES + MAX_LAYERS * LAYER_BYTES
"""What a message is sent with besides itself, at the most: a protocol does not know how many hosts
and stacks it is part of."""
_SECOND = 1_000_000_000
_SLOTS = 20
_WINDOW = _SLOTS + 3
"""Slots that together stay within the limit: a second touches one more than it has, and what is
decided at one time may leave the node a tenth of a second later."""


class ByteBudget:
    """What is spent in any second is at most `bytes_per_s`, whenever that second begins.

    Time is cut into twentieths of a second: exact enough, in constant memory, and what is spent
    evenly can be 20/23 of the limit.
    """

    __slots__ = ("_bytes_per_s", "_newest", "_recent", "_used", "spent", "withheld")

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._recent = [0] * _WINDOW
        self._newest = 0
        """The number of the slot it is in now."""
        self._used = 0
        """In the recent slots together."""
        self.spent = 0
        self.withheld = 0
        """Bytes that were not sent because the limit was reached."""

    @property
    def limited(self) -> bool:
        return self._bytes_per_s > 0

    def available(self, now: int) -> int:
        """Bytes that may be sent now."""
        if not self._bytes_per_s:
            return NEVER
        slot = now * _SLOTS // _SECOND
        recent = self._recent
        for number in range(max(self._newest + 1, slot - _WINDOW + 1), slot + 1):
            index = number % len(recent)
            self._used -= recent[index]
            recent[index] = 0
        self._newest = max(self._newest, slot)
        return self._bytes_per_s - self._used

    def copies(self, now: int, size: int, wanted: int) -> int:
        """How many messages of `size` bytes may be sent, of those wanted; they are paid for."""
        if not self._bytes_per_s:
            return wanted
        granted = min(wanted, self.available(now) // size)
        paid = granted * size
        self._recent[self._newest % len(self._recent)] += paid
        self._used += paid
        self.spent += paid
        self.withheld += (wanted - granted) * size
        return granted
