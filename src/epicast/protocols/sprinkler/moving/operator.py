"""Who asks for something: one question to one proxy, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from msgspec import Struct

from epicast.core import Config, Effects, NodeId, Peer, Protocol, Recovered, handles
from epicast.protocols.sprinkler.moving.messages import AcceptLoss, MoveReply, MoveRequest

Request = MoveRequest | AcceptLoss


class Unanswered(Struct, frozen=True):
    """The proxy is not there, or not any more: what has become of the request is not known."""


class Operator(Protocol[Config]):
    """Gives the answer, or `Unanswered`, to the application as a notice."""

    def __init__(self, node: Peer, config: Config, rng: Random, *, request: Request) -> None:
        super().__init__(node, config, rng)
        self._request = request

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        fx.connect(contacts[0])

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        fx.send(peer, self._request)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        fx.notice(0, Unanswered())

    @handles(MoveReply)
    def _handle_reply(self, now: int, source: NodeId, message: MoveReply, fx: Effects) -> None:
        fx.notice(0, message)
