"""A proxy's part in the membership of its region (RLP): it is one of those agents know."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from random import Random

from epicast.core import CONTROL, DATAGRAM, Effects, NodeId, Peer, handles
from epicast.protocols.reinforcement.messages import ViewExchange
from epicast.protocols.reinforcement.view import ReinforcedView
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.messages import Notify
from epicast.protocols.sprinkler.notifier import Notifier
from epicast.protocols.sprinkler.standing import Guarded

_MOST_IN_DATAGRAM = 30


class GossipingProxy(Guarded[ProxyConfig]):
    def __init__(self, node: Peer, config: ProxyConfig, rng: Random) -> None:
        super().__init__(node, config, rng)
        self._view = ReinforcedView(node.id, config.view_size, rng)
        self._notifier = Notifier(config, self._view, connects=False)

    @abstractmethod
    def _are_no_agents(self) -> Mapping[NodeId, Peer]:
        """Other proxies, which have no business in a region's views."""

    def _gossip(self, fx: Effects) -> None:
        partner = self._view.random_member()
        if partner is not None:
            fx.know(partner)
            self._exchange_views(partner.id, True, fx)

    @handles(Notify)
    def _handle_notify(self, now: int, source: NodeId, message: Notify, fx: Effects) -> None:
        """A proxy gets nothing from agents: it is who they have it from."""

    @handles(ViewExchange)
    def _handle_views(self, now: int, source: NodeId, message: ViewExchange, fx: Effects) -> None:
        if message.sender.id != source:
            fx.drop("view under another name", source)
            return
        self._view.merge(message.sender, message.view)
        for peer in self._are_no_agents():
            self._view.remove(peer)
        if message.wants_answer:
            fx.know(message.sender)
            self._exchange_views(source, False, fx)

    def _exchange_views(self, peer: NodeId, wants_answer: bool, fx: Effects) -> None:
        message = ViewExchange(self.node, self._view.members(), wants_answer)
        fx.send(peer, message, DATAGRAM if len(message.view) <= _MOST_IN_DATAGRAM else CONTROL)

    def neighbors(self) -> list[NodeId]:
        return self._view.ids()
