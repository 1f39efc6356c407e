"""Publications for streams owned elsewhere: on to the owner, by whatever way there is, and back.

A relay keeps nothing but where an answer goes. If anything is lost on the way, the publisher sends
it again, and the owner recognises what it has.
"""

from __future__ import annotations

from collections.abc import Collection

from epicast.core import DATA, Effects, NodeId
from epicast.protocols.sprinkler.messages import Publish, Published, RefusalCode, Refused


class Relays:
    __slots__ = ("_max_routes", "_routes", "relayed")

    def __init__(self, max_routes: int) -> None:
        self._max_routes = max_routes
        self._routes: dict[tuple[int, int], NodeId] = {}
        """From (stream, publisher) to who hears the answer; the least recent first."""
        self.relayed = 0

    def forward(
        self,
        peer: NodeId,
        message: Publish,
        owner: NodeId,
        others: Collection[NodeId],
        fx: Effects,
    ) -> None:
        """Send a publication to its owner, or to another proxy if the owner is out of reach."""
        towards = owner if owner in others else 0
        if not towards:
            towards = next((other for other in others if other != peer), 0)
        if not towards or message.hops < 1:
            fx.send(peer, refusal(message, RefusalCode.BUSY, "no way to the owner"))
            return
        route = (message.stream, message.publisher)
        self._routes.pop(route, None)
        self._routes[route] = peer
        if len(self._routes) > self._max_routes:
            del self._routes[next(iter(self._routes))]
        self.relayed += 1
        onward = Publish(
            message.stream, message.publisher, message.first, message.level, message.hops - 1,
            message.batch,
        )  # fmt: skip
        if fx.room(towards) < message.batch.wire_size():
            fx.send(peer, refusal(message, RefusalCode.BUSY, "the way to the owner is congested"))
        else:
            fx.send(towards, onward, DATA)

    def back(self, message: Published | Refused, fx: Effects) -> None:
        peer = self._routes.get((message.stream, message.publisher))
        if peer is None:
            fx.drop("answer to nobody", 0, message.stream)
        else:
            fx.send(peer, message)

    def forget(self, peer: NodeId) -> None:
        gone = [route for route, towards in self._routes.items() if towards == peer]
        for route in gone:
            del self._routes[route]


def refusal(message: Publish, code: RefusalCode, detail: str) -> Refused:
    last = message.first + message.batch.last - message.batch.first
    return Refused(message.stream, message.publisher, message.first, last, code, detail)
