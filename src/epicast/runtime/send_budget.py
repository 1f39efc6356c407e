"""What a node may send in any second: all its topics, datagrams and connections together."""

from __future__ import annotations

from collections.abc import Callable

from epicast.protocols.budget import PACKET_BYTES, ByteBudget, segments_cost
from epicast.runtime.limits import UNLIMITED, Limits


class SendBudget:
    """The last word at the socket, by the clock of that moment. A datagram that does not fit is
    dropped, a frame waits for its turn."""

    RETRY_S = 0.05
    """After which a frame that did not fit is tried again."""

    def __init__(self, limits: Limits, clock: Callable[[], int]) -> None:
        most = limits.max_send_bytes_per_second
        self.limited = most < UNLIMITED
        self._most = most
        self._budget = ByteBudget(most)
        self._clock = clock

    def take_datagram(self, size: int) -> bool:
        """Whether it may be sent now; it counts then."""
        return not self.limited or self._take(size + PACKET_BYTES)

    def take_frame(self, size: int) -> bool:
        """The same of a frame. One that is larger than the whole budget goes when nothing else was
        sent for a second: it would hold up its connection for ever."""
        return self._take(min(self._most, segments_cost(size)))

    def _take(self, cost: int) -> bool:
        now = self._clock()
        granted = self._budget.copies(now, cost, 1)
        self._budget.settle(now + 1)  # it leaves now, not some time during a step
        return granted > 0
