"""How much a link still takes. A queue that overflows ends the connection, so this is kept to."""

from __future__ import annotations

from collections.abc import Sequence

from epicast.core import Effects, EventBatch, NodeId
from epicast.protocols.sprinkler.messages import Answer, Events


class Rooms:
    """Of all links of a node, which have queues of the same size."""

    __slots__ = ("_most",)

    def __init__(self) -> None:
        self._most = 0
        """The most room there ever was: that of a link with nothing in its queue."""

    def left(self, peer: NodeId, fx: Effects) -> int:
        """Bytes that may be sent to a peer, less what this step has sent it already."""
        room = fx.room(peer)
        self._most = max(self._most, room)
        return room - sum(
            batch.wire_size()
            for to, message, _ in fx.sends
            if to == peer and isinstance(message, (Events, Answer))
            for batch in message.batches
        )

    def fitting(self, batches: Sequence[EventBatch], room: int) -> Sequence[EventBatch]:
        """Those there is room for. What is too large for any queue goes when it is empty."""
        taken = 0
        for index, batch in enumerate(batches):
            taken += batch.wire_size()
            if taken > room and (index or room < self._most):
                return batches[:index]
        return batches
