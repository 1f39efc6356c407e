"""A connection between two simulated nodes: reliable and in order while it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epicast.sim.node import SimNode

UNWANTED, ASKED, TOLD = range(3)
"""What an end's protocol has to do with a link: nothing, waits to hear of it, knows it is up."""


class Link:
    """The two ends are numbered 0 (who opened it) and 1. A broken link is never mended: a new
    connection is a new link, so what was sent on the old one cannot arrive on the new."""

    __slots__ = ("alive", "arrivals", "checked", "ends", "established", "gone", "ready_at",
                 "used_at", "wanted")  # fmt: skip

    def __init__(self, opener: SimNode, other: SimNode, ready_at: int) -> None:
        self.ends = (opener, other)
        self.alive = True
        self.established = False
        self.ready_at = ready_at
        self.wanted = [UNWANTED, UNWANTED]
        self.gone: SimNode | None = None
        """The end that has died, while the other does not know yet: it hears nothing any more,
        not even after it was started again."""
        self.arrivals = [ready_at, ready_at]
        """When the last message towards each end arrives: none may arrive before it."""
        self.used_at = ready_at
        self.checked = False
        """Whether a look for idleness is scheduled."""

    def end_of(self, node: SimNode) -> int:
        return 0 if self.ends[0] is node else 1

    def other(self, node: SimNode) -> SimNode:
        return self.ends[1 - self.end_of(node)]
