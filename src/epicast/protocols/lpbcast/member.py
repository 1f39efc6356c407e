"""A node's part in the membership, and what it sends: the lower half of `Lpbcast`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from epicast.core import (
    DATAGRAM,
    Effects,
    Message,
    NodeId,
    Peer,
    PeerSampler,
    Protocol,
    handles,
)
from epicast.core.sampling import choose, sample
from epicast.protocols.budget import ByteBudget, connection_cost, datagram_cost
from epicast.protocols.lpbcast.composing import Composer
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.membership import Membership
from epicast.protocols.lpbcast.messages import Gossip, Subscribe, Subscription

ROUND, VIEWS, SETTLE = "round", "views", "settle"
_SETTLE_NS = 20_000_000
"""How soon after sending there is another step, so that the budget knows what has left."""


class Member(Protocol[LpbcastConfig]):
    __slots__ = ("_budget", "_composer", "_contacts", "_extra_left", "_membership", "_quiet_rounds",
                 "_round", "_was_heard", "_welcomes")  # fmt: skip

    def __init__(
        self, node: Peer, config: LpbcastConfig, rng: Random, peers: PeerSampler | None
    ) -> None:
        super().__init__(node, config, rng)
        self.below = peers
        self._contacts: list[Peer] = []
        """The privileged ones."""
        self._membership = Membership(node, config, rng)
        self._composer = Composer(config, rng)
        self._budget = ByteBudget(config.bytes_per_s)
        self._round = 0
        self._extra_left = 0
        """Gossips of membership alone still to come in this round."""
        self._quiet_rounds = 0
        """Since gossip came last."""
        self._was_heard = False
        """Whether any gossip came."""
        self._welcomes = config.max_welcomes
        """Newcomers that can still be answered at once in this round."""

    # Coming and going

    def _join(self, now: int, contacts: Sequence[Peer], life: int, fx: Effects) -> None:
        self._membership.begin(life)
        if self.below is None:
            others = [peer for peer in contacts if peer.id != self.node.id]
            known = sample(self.rng, others, self.config.view_size)
            self._contacts = known[: self.config.max_contacts]
            self._membership.hear([Subscription(peer, 0) for peer in known], fx)
            self._subscribe(now, fx)

    def _subscribe(self, now: int, fx: Effects) -> None:
        """Through a contact, or else whoever is left in the view."""
        contact = choose(self.rng, self._contacts) if self._contacts else None
        if contact is None:
            neighbors = self._membership.sample(1)
            contact = self._membership.address(neighbors[0]) if neighbors else None
        if contact is not None:
            fx.know(contact)
            self._send(now, [contact.id], Subscribe(self._membership.own()), DATAGRAM, fx)

    @handles(Subscribe)
    def _handle_subscribe(self, now: int, source: NodeId, message: Subscribe, fx: Effects) -> None:
        if message.subscription.peer.id != source or self.below is not None:
            fx.drop("subscription in another's name", source)
            return
        self._membership.hear((message.subscription,), fx, frequency=0)
        if self._welcomes > 0:
            self._welcomes -= 1
            self._welcome(now, message.subscription, fx)

    def _welcome(self, now: int, newcomer: Subscription, fx: Effects) -> None:
        """Tell it of others, and some others of it, without waiting for the next round. So many per
        round only: who asks costs us more than itself."""
        peer = newcomer.peer.id
        others = [each for each in self.sample(self.config.fanout) if each != peer]
        fx.know(newcomer.peer)
        introduction = self._composer.introduction(self._membership, peer)
        self._send(now, [peer], Gossip(introduction), DATAGRAM, fx)
        self._send(now, others, Gossip((newcomer,)), DATAGRAM, fx)

    def _subscribe_if_quiet(self, now: int, fx: Effects) -> None:
        self._quiet_rounds += 1
        config = self.config
        impatient = config.max_welcomes > 0 and not self._was_heard
        rounds = 1 if impatient else config.resubscribe_rounds
        if self.below is None and self._quiet_rounds % rounds == 0:
            self._subscribe(now, fx)

    def _hear_of_members(self, message: Gossip, fx: Effects) -> None:
        self._quiet_rounds = 0
        self._was_heard = True
        if self.below is None:
            if message.unsubscriptions:
                self._membership.leave(message.unsubscriptions, fx)
            if message.subscriptions:
                self._membership.hear(message.subscriptions, fx)

    # Rounds

    def _begin_round(self, now: int) -> None:
        self._arm_round(now)
        self._extra_left = self.config.membership_extra if self.below is None else 0
        self._arm_views(now)
        self._round += 1
        self._welcomes = self.config.max_welcomes
        self._membership.age_unsubscriptions()

    def _carries_membership(self) -> bool:
        return self.below is None and self._round % self.config.membership_every == 0

    def _gossip_membership(self, now: int, fx: Effects) -> None:
        """Between two rounds."""
        self._arm_views(now)
        subscriptions, unsubscriptions, _ = self._composer.membership(self._membership)
        self._gossip(now, [Gossip(subscriptions, unsubscriptions)], fx)

    def _gossip(self, now: int, messages: Sequence[Gossip], fx: Effects) -> None:
        targets = self.sample(self.config.fanout)
        every = self.config.contact_every
        if every and self._contacts and self._round % every == 0:
            # It may be on the far side of a partition that both sides have forgotten by now.
            contact = choose(self.rng, self._contacts)
            fx.know(contact)
            if contact.id not in targets:
                targets[-1:] = [contact.id]
        for message in messages:
            self._send(now, targets, message, DATAGRAM, fx)

    def _send(
        self, now: int, targets: list[NodeId], message: Message, channel: int, fx: Effects
    ) -> bool:
        """Whether it was sent to anybody: the budget may be spent."""
        if self._budget.limited and targets:
            lingering = channel != DATAGRAM
            cost = (connection_cost if lingering else datagram_cost)(message.wire_size())
            granted = self._budget.copies(now, cost, len(targets), lingering=lingering)
            targets = targets[:granted]
            if not self._budget.settled:
                self.timers.set(SETTLE, now + _SETTLE_NS)
        if targets:
            fx.send(targets, message, channel)
        return bool(targets)

    def _arm_round(self, now: int, *, first: bool = False) -> None:
        period = self.config.gossip_period_ns
        if self.config.aligned_rounds:
            self.timers.set(ROUND, (now // period + 1) * period)
        elif first:
            self.timers.set(ROUND, now + 1 + int(self.rng.random() * period))
        else:
            stretch = 1 + self.config.gossip_jitter * (2 * self.rng.random() - 1)
            self.timers.set(ROUND, now + max(1, int(period * stretch)))

    def _arm_views(self, now: int) -> None:
        """Gossips of membership alone, evenly between two rounds."""
        if self._extra_left > 0:
            self._extra_left -= 1
            between = self.config.gossip_period_ns // (self.config.membership_extra + 1)
            self.timers.set(VIEWS, now + between)

    # For the layers above, and for measuring

    def sample(self, k: int) -> list[NodeId]:
        return self._membership.sample(k) if self.below is None else self.below.sample(k)

    def neighbors(self) -> list[NodeId]:
        return list(self._membership.view)

    def purged_subscriptions(self) -> Mapping[int, int]:
        """How many were purged from `subs`, by how often they had been heard of."""
        return self._membership.removed
