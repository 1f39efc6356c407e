"""What others say is looked at here before anything is done with it: nobody counts with numbers
that cannot be."""

from __future__ import annotations

from epicast.protocols.epto.clocks import Clock
from epicast.protocols.epto.entries import ENTRY_BYTES
from epicast.protocols.epto.layout import MAX_NUMBER
from epicast.protocols.epto.messages import Ball

_LONGEST_LATENCY_NS = 3600 * 10**9
"""As long as a round may be."""


def fault_of(ball: Ball, clock: Clock, wall: int) -> str:
    """Why such a ball is dropped unread, empty if it is not. Entries are looked at as they are
    taken in (`kernels.absorb`), the estimate of the size by `SizeEstimate.hear`."""
    entries, content = ball.entries, len(ball.columns)
    if entries < 0 or content < ENTRY_BYTES * entries or (content and not entries):
        return "malformed ball"
    if not 0 <= ball.published <= MAX_NUMBER:
        return "implausible number"
    if ball.published_at and not clock.is_believable(ball.published_at, wall):
        return "implausible timestamp"
    if ball.first_at and not 0 < ball.first_at <= ball.published_at:
        return "implausible timestamp"
    if ball.wall and not clock.is_believable(ball.wall, wall):
        return "implausible clock"
    if not 0 <= ball.latency <= _LONGEST_LATENCY_NS:
        return "implausible latency"
    return ""


def is_number(number: int) -> bool:
    """Of an event, or a probe."""
    return 0 <= number <= MAX_NUMBER
