"""A limit on the bytes a protocol sends per second."""

from __future__ import annotations

from epicast.core import NEVER
from epicast.core.message import LAYER_BYTES, MAX_LAYERS
from epicast.wire import DATAGRAM_HEADER_BYTES

PACKET_BYTES = 48
"""Headers of UDP and IPv6; those of IPv4 are shorter."""
ENVELOPE_BYTES = PACKET_BYTES + DATAGRAM_HEADER_BYTES + MAX_LAYERS * LAYER_BYTES
"""What a message is sent with besides itself, at the most: a protocol does not know how many hosts
and stacks it is part of."""
_SEGMENT_BYTES = 1200
_SEGMENT_HEADER_BYTES = 80
"""Of TCP and IPv6, with options."""
_CONNECTING_BYTES = 1000
"""For opening a connection, introducing oneself and closing it."""
_SECOND = 1_000_000_000
_SLOTS = 20
_LINGER_SLOTS = 2 * _SLOTS
"""How much later than it was decided something may leave on a connection."""


def datagram_cost(size: int) -> int:
    return size + ENVELOPE_BYTES


def connection_cost(size: int) -> int:
    """Of a message that goes over a connection, which may have to be opened for it."""
    return segments_cost(size + MAX_LAYERS * LAYER_BYTES) + _CONNECTING_BYTES


def segments_cost(size: int) -> int:
    """Of bytes on a connection that is open."""
    return size + -(-size // _SEGMENT_BYTES) * _SEGMENT_HEADER_BYTES


def largest_on_connection(budget: int) -> int:
    """The size of a message that costs no more than this on a connection."""
    room = budget - MAX_LAYERS * LAYER_BYTES - _CONNECTING_BYTES - _SEGMENT_HEADER_BYTES
    return room * _SEGMENT_BYTES // (_SEGMENT_BYTES + _SEGMENT_HEADER_BYTES)


class ByteBudget:
    """What leaves in any second is at most `bytes_per_s`, whenever that second begins.

    A protocol decides at the beginning of a step, and what it sends leaves before the next one
    begins, however long the step takes. So it counts as leaving when the next step begins
    (`settle`); who spends sees to it that one comes soon. What goes over a connection counts for
    two seconds longer.

    Time is cut into twentieths of a second: exact enough, in constant memory, and what is spent
    evenly can be 20/21 of the limit.
    """

    __slots__ = ("_bytes_per_s", "_decided_at", "_newest", "_recent", "_unsettled", "_used",
                 "spent", "withheld")  # fmt: skip

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._recent = [0] * (_SLOTS + 1 + _LINGER_SLOTS)
        """By the slot in which bytes leave at the latest, those to come included."""
        self._newest = 0
        """The number of the slot it is in now."""
        self._used = 0
        """In all slots that count, and in `_unsettled`."""
        self._unsettled = 0
        """Decided in the step at hand."""
        self._decided_at = 0
        self.spent = 0
        self.withheld = 0
        """Bytes that were not sent because the limit was reached."""

    @property
    def limited(self) -> bool:
        return self._bytes_per_s > 0

    @property
    def settled(self) -> bool:
        return not self._unsettled

    def settle(self, now: int) -> None:
        """A step begins: what was decided before has left by now."""
        slot = now * _SLOTS // _SECOND
        recent = self._recent
        for number in range(max(self._newest + 1, slot - _SLOTS - _LINGER_SLOTS), slot + 1):
            index = (number - _SLOTS - 1) % len(recent)
            self._used -= recent[index]
            recent[index] = 0
        self._newest = max(self._newest, slot)
        if self._unsettled and now > self._decided_at:
            recent[self._newest % len(recent)] += self._unsettled
            self._unsettled = 0

    def available(self, now: int) -> int:
        """Bytes that may be sent now."""
        if not self._bytes_per_s:
            return NEVER
        self.settle(now)
        return self._bytes_per_s - self._used

    def copies(self, now: int, size: int, wanted: int, *, lingering: bool = False) -> int:
        """How many messages of `size` bytes may be sent, of those wanted; they are paid for.
        `lingering`: on connections, which take their time."""
        if not self._bytes_per_s:
            return wanted
        granted = min(wanted, self.available(now) // size)
        paid = granted * size
        if lingering:
            self._recent[(self._newest + _LINGER_SLOTS) % len(self._recent)] += paid
        else:
            self._unsettled += paid
            self._decided_at = now
        self._used += paid
        self.spent += paid
        self.withheld += (wanted - granted) * size
        return granted
