from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from epicast.core import (
    CONTROL,
    DATAGRAM,
    Effects,
    InvariantViolation,
    NodeId,
    Peer,
    Protocol,
    Recovered,
    handles,
)
from epicast.core.sampling import choose, sample
from epicast.protocols.reinforcement.config import ReinforcementConfig
from epicast.protocols.reinforcement.messages import MOST_IN_DATAGRAM, ViewExchange
from epicast.protocols.reinforcement.view import ReinforcedView

_EXCHANGE = "exchange"


class Reinforcement(Protocol[ReinforcementConfig]):
    __slots__ = ("_contacts", "_exchanges", "_view")

    def __init__(self, node: Peer, config: ReinforcementConfig, rng: Random) -> None:
        super().__init__(node, config, rng)
        self._view = ReinforcedView(node.id, config.view_size, rng)
        self._contacts: list[Peer] = []
        self._exchanges = 0

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        others = [peer for peer in contacts if peer.id != self.node.id]
        self._contacts = sample(self.rng, others, self.config.max_contacts)
        first = 1 + int(self.rng.random() * self.config.exchange_period_ns)
        self.timers.set(_EXCHANGE, now + first)
        if self._contacts:
            self._exchange(choose(self.rng, self._contacts), True, fx)

    def on_stop(self, now: int, fx: Effects) -> None:
        """Leaving needs no word: who does not reinforce itself is forgotten."""
        self.timers.clear()

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        config = self.config
        stretch = 1 + config.exchange_jitter * (2 * self.rng.random() - 1)
        self.timers.set(_EXCHANGE, now + max(1, int(config.exchange_period_ns * stretch)))
        self._exchanges += 1
        every = config.contact_every
        wants_contact = not len(self._view) or (every and self._exchanges % every == 0)
        partner = choose(self.rng, self._contacts) if wants_contact and self._contacts else None
        partner = partner or self._view.random_member()
        if partner is not None:
            self._exchange(partner, True, fx)

    @handles(ViewExchange)
    def _handle_views(self, now: int, source: NodeId, message: ViewExchange, fx: Effects) -> None:
        if message.sender.id != source or source == self.node.id:
            fx.drop("view under another name", source)
            return
        if message.wants_answer:  # with what we knew before the sender told us
            self._exchange(message.sender, False, fx)
        before = set(self._view.ids())
        self._view.merge(message.sender, message.view)
        for peer in sorted(before - set(self._view.ids())):
            fx.neighbor_down(peer)
        for member in self._view.members():
            if member.id not in before:
                fx.know(member)
                fx.neighbor_up(member.id)

    def _exchange(self, partner: Peer, wants_answer: bool, fx: Effects) -> None:
        fx.know(partner)
        message = ViewExchange(self.node, self._view.members(), wants_answer)
        small = len(message.view) <= MOST_IN_DATAGRAM
        fx.send(partner.id, message, DATAGRAM if small else CONTROL)

    def sample(self, k: int) -> list[NodeId]:
        return [peer.id for peer in self._view.sample(k)]

    def neighbors(self) -> list[NodeId]:
        return self._view.ids()

    def check_invariants(self) -> None:
        if len(self._view) > self.config.view_size or self.node.id in self._view:
            raise InvariantViolation(f"node {self.node} has the view {self._view.ids()}")

    def statistics(self) -> Mapping[str, int | float]:
        return {"view": len(self._view), "exchanges": self._exchanges}
