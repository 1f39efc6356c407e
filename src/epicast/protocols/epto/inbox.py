"""Balls that wait for the node's round."""

from __future__ import annotations

from epicast.core import Effects, NodeId
from epicast.protocols.epto.messages import Ball
from epicast.protocols.epto.store import EventStore

_MAX_BALLS = 64
_MAX_BYTES = 16 << 20
"""Balls that wait to be taken in, and their bytes: more are not left for the next round."""


class Inbox:
    """What was received since the last round, with the senders. It is taken in all at once, shortly
    before it is needed: what is known then stays in the processor's cache while one ball after the
    other is compared with it."""

    __slots__ = ("_balls", "_bytes")

    def __init__(self) -> None:
        self._balls: list[tuple[NodeId, Ball]] = []
        self._bytes = 0

    @property
    def latest(self) -> int:
        """No timestamp in it is later, if balls are what they should be."""
        ends = ((8 * ball.entries, ball.columns) for _, ball in self._balls)
        last = (int.from_bytes(columns[end - 8 : end], "little") for end, columns in ends)
        return max(last, default=0)

    def add(self, source: NodeId, ball: Ball) -> bool:
        """Whether it is full now."""
        self._balls.append((source, ball))
        self._bytes += len(ball.columns)
        return len(self._balls) >= _MAX_BALLS or self._bytes >= _MAX_BYTES

    def empty_into(self, store: EventStore, hop: int, latest: int, fx: Effects) -> int:
        """Everything, by `hop` older than it was sent, but what is later than `latest`: how many
        entries that was."""
        too_late = 0
        for source, ball in self._balls:
            refused = store.absorb(ball.columns, ball.entries, hop, latest)
            if refused < 0:
                fx.drop("malformed ball", source)
            elif refused:
                too_late += refused
                fx.drop("timestamp too far ahead", source)
        self._balls.clear()
        self._bytes = 0
        return too_late
