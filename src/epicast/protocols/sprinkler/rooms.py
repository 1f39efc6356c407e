"""How much a link still takes. A queue that overflows ends the connection, so this is kept to."""

from __future__ import annotations

from collections.abc import Sequence

from epicast.core import Effects, EventBatch, NodeId
from epicast.core.effects import Send
from epicast.protocols.sprinkler.messages import Answer, Events, Publish

MESSAGE_BYTES = 64
"""What a message takes besides its batches, at most."""


class Rooms:
    """Of all links of a node, which have queues of the same size.

    Who was told that a link is full hears when it is not any more. But what found no room because
    of what the same step had sent hears nothing, so it is remembered and tried again.
    """

    __slots__ = ("_first", "_held_up", "_most", "_noted", "_sent")

    def __init__(self) -> None:
        self._most = 0
        """The most room there ever was: that of a link with nothing in its queue."""
        self._held_up: dict[NodeId, None] = {}
        self._first: Send | None = None
        self._noted = 0
        self._sent: dict[NodeId, int] = {}
        """What the step at hand has sent to whom, as far as it was noted."""

    def left(self, peer: NodeId, fx: Effects) -> int:
        """Bytes that may be sent to a peer, less what this step has sent it already."""
        room = fx.room(peer)
        self._most = max(self._most, room)
        self._take_note(fx.sends)
        return room - self._sent.get(peer, 0)

    def _take_note(self, sends: Sequence[Send]) -> None:
        """Of what was sent since the last time. Effects are emptied between steps."""
        if not sends or sends[0] is not self._first or len(sends) < self._noted:
            self._first, self._noted, self._sent = sends[0] if sends else None, 0, {}
        for to, message, _ in sends[self._noted :]:
            if isinstance(to, int) and isinstance(message, (Events, Answer, Publish)):
                batches = (message.batch,) if isinstance(message, Publish) else message.batches
                size = MESSAGE_BYTES + sum(batch.wire_size() for batch in batches)
                self._sent[to] = self._sent.get(to, 0) + size
        self._noted = len(sends)

    def fitting(
        self, peer: NodeId, batches: Sequence[EventBatch], room: int
    ) -> Sequence[EventBatch]:
        """Those there is room for. What is too large for any queue goes when it is empty."""
        taken = MESSAGE_BYTES
        for index, batch in enumerate(batches):
            taken += batch.wire_size()
            if taken > room and (index or room < self._most):
                if not index:
                    self.hold_up(peer)
                return batches[:index]
        return batches

    def hold_up(self, peer: NodeId) -> None:
        """There was no room for something."""
        self._held_up[peer] = None

    def take_held_up(self) -> list[NodeId]:
        """Whom something is held up for."""
        held_up, self._held_up = self._held_up, {}
        return list(held_up)
