"""Publications for streams owned elsewhere: on to the owner, by whatever way there is, and back.

A relay keeps nothing. A publication notes whom it came from, its answer goes back along these
notes; nobody who is noted is sent it again, so neither can go in circles. If anything is lost on
the way, the publisher sends it again, and the owner recognises what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from epicast.core import DATA, Effects, NodeId
from epicast.protocols.sprinkler.messages import (
    Publish,
    Published,
    RefusalCode,
    Refused,
    SendAgain,
)
from epicast.protocols.sprinkler.rooms import Rooms


class Relays:
    __slots__ = ("_called_back", "_max_hops", "_rooms", "relayed")

    def __init__(self, max_hops: int) -> None:
        self._max_hops = max_hops
        self._rooms = Rooms()
        self.relayed = 0
        self._called_back = 0

    def call_back(self, attached: Sequence[NodeId], fx: Effects) -> None:
        """Publications may have been lost on their way: have them sent again."""
        if attached and self.relayed > self._called_back:
            fx.send(attached, SendAgain())
        self._called_back = self.relayed

    def forward(
        self, peer: NodeId, message: Publish, towards: Iterable[NodeId], fx: Effects
    ) -> None:
        """Send a publication on to the first of `towards` that it has not come from."""
        path = (*message.path, peer)
        onward_to = next((node for node in towards if node not in path), 0)
        if not onward_to or len(path) > self._max_hops:
            fx.send(peer, refusal(message, RefusalCode.BUSY, "no way to the owner"))
        elif not self._rooms.fitting(onward_to, (message.batch,), self._rooms.left(onward_to, fx)):
            fx.send(peer, refusal(message, RefusalCode.BUSY, "the way to the owner is congested"))
        else:
            self.relayed += 1
            onward = Publish(
                message.stream, message.publisher, message.first, message.settled, message.level,
                path, message.batch,
            )  # fmt: skip
            fx.send(onward_to, onward, DATA)

    def back(self, message: Published | Refused, fx: Effects) -> None:
        """Send an answer one step back."""
        if not message.path:
            fx.drop("answer to nobody", 0, message.stream)
            return
        path, peer = message.path[:-1], message.path[-1]
        if isinstance(message, Published):
            fx.send(peer, Published(message.stream, message.publisher, path, message.acks))
        else:
            fx.send(
                peer,
                Refused(
                    message.stream, message.publisher, path, message.first, message.last,
                    message.code, message.detail,
                ),
            )  # fmt: skip


def refusal(message: Publish, code: RefusalCode, detail: str) -> Refused:
    """The answer to whom the publication came from."""
    last = message.first + message.batch.last - message.batch.first
    return Refused(
        message.stream, message.publisher, message.path, message.first, last, code, detail
    )
