from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from epicast.core import (
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
from epicast.protocols.scamp.config import ScampConfig
from epicast.protocols.scamp.messages import (
    Forgotten,
    Forwarded,
    Heartbeat,
    Kept,
    Replace,
    Subscription,
    Welcome,
)

_HEARTBEAT, _LEASE = "heartbeat", "lease"
_KEPT = -1
_PATIENCE = 2
"""Heartbeats after which a subscription counts as lost: it may have gone to a contact that left."""


class Scamp(Protocol[ScampConfig]):
    __slots__ = ("_contacts", "_former", "_in_view", "_silent_periods", "_subscriptions",
                 "_unkept_periods", "_view")  # fmt: skip

    def __init__(self, node: Peer, config: ScampConfig, rng: Random) -> None:
        super().__init__(node, config, rng)
        self._view: dict[NodeId, tuple[Peer, int]] = {}
        """Neighbours, and when their leases end (PartialView)."""
        self._in_view: dict[NodeId, int] = {}
        """Those that keep us, and until when (InView); in the order of the latest news."""
        self._contacts: list[Peer] = []
        self._former: dict[NodeId, Peer] = {}
        """Neighbours whose leases ended: somebody to ask when nobody else is left."""
        self._silent_periods = 0
        self._subscriptions = 0
        self._unkept_periods = 0
        """Heartbeats since a subscription that nobody has kept so far."""

    # Subscribing

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        others = [peer for peer in contacts if peer.id != self.node.id]
        self._contacts = sample(self.rng, others, self.config.max_contacts)
        self._subscribe(now, fx)
        spread = self.rng.random()
        self.timers.set(_HEARTBEAT, now + 1 + int(spread * self.config.heartbeat_period_ns))

    def _subscribe(self, now: int, fx: Effects) -> None:
        """Through a neighbour; through a contact if there is none, and now and then anyway. The
        next time before this lease ends."""
        self.timers.set(_LEASE, now + int(self.config.lease_ns * (0.7 + 0.2 * self.rng.random())))
        self._subscriptions += 1
        self._unkept_periods = 0
        every = self.config.contact_every
        members = [peer for peer, _ in self._view.values()]
        if not members:
            members = [*self._contacts, *self._former.values()]
        elif self._contacts and every and self._subscriptions % every == 0:
            members = self._contacts
        if members:
            member = choose(self.rng, members)
            fx.know(member)
            message = Subscription(self.node, self.config.walk_length, not self._view)
            fx.send(member.id, message, DATAGRAM)

    @handles(Subscription)
    def _handle_subscription(
        self, now: int, source: NodeId, message: Subscription, fx: Effects
    ) -> None:
        subscriber = message.subscriber
        if subscriber.id == self.node.id:
            return
        walk = min(message.walk, self.config.walk_length)
        others = [peer for peer in self._view if peer != subscriber.id]
        if others and walk > 0:
            onward = Subscription(subscriber, walk - 1, message.newcomer)
            fx.send(choose(self.rng, others), onward, DATAGRAM)
            return
        if message.newcomer:
            fx.know(subscriber)
            fx.send(subscriber.id, Welcome(self.node), DATAGRAM)
        if not others:
            self._keep(now, subscriber, fx, tell=True)
        else:
            copies = others + [choose(self.rng, others) for _ in range(self.config.extra_copies)]
            for peer in copies:
                fx.send(peer, Forwarded(subscriber, 0), DATAGRAM)

    @handles(Welcome)
    def _handle_welcome(self, now: int, source: NodeId, message: Welcome, fx: Effects) -> None:
        if message.member.id != source or source == self.node.id or self._view:
            fx.drop("welcome of a stranger", source)
        else:
            self._keep(now, message.member, fx)

    @handles(Forwarded)
    def _handle_forwarded(self, now: int, source: NodeId, message: Forwarded, fx: Effects) -> None:
        subscriber, config = message.subscriber, self.config
        forwards = max(0, message.forwards)
        others = [peer for peer in self._view if peer != subscriber.id]
        can_keep = subscriber.id != self.node.id and self._is_new(now, subscriber.id)
        last = forwards >= config.max_forwards or not others
        if can_keep and (last or self.rng.random() < 1 / (1 + len(self._view))):
            self._keep(now, subscriber, fx, tell=True)
        elif not last:
            fx.send(choose(self.rng, others), Forwarded(subscriber, forwards + 1), DATAGRAM)

    def _is_new(self, now: int, peer: NodeId) -> bool:
        """Not a neighbour, or one whose lease is about to end: its new subscription renews it."""
        if peer in self._view:
            return self._view[peer][1] - now < self.config.lease_ns // 2
        return len(self._view) < self.config.max_view

    def _keep(self, now: int, peer: Peer, fx: Effects, *, tell: bool = False) -> None:
        if peer.id not in self._view:
            if len(self._view) >= self.config.max_view:
                return
            fx.know(peer)
            fx.neighbor_up(peer.id)
        self._view[peer.id] = (peer, now + self.config.lease_ns)
        if tell:
            fx.send(peer.id, Kept(), DATAGRAM)

    @handles(Kept)
    def _handle_kept(self, now: int, source: NodeId, message: Kept, fx: Effects) -> None:
        self._unkept_periods = _KEPT
        self._in_view.pop(source, None)
        self._in_view[source] = now + self.config.lease_ns
        while len(self._in_view) > self.config.max_view:
            del self._in_view[next(iter(self._in_view))]

    @handles(Forgotten)
    def _handle_forgotten(self, now: int, source: NodeId, message: Forgotten, fx: Effects) -> None:
        self._in_view.pop(source, None)

    # Leaving

    def on_stop(self, now: int, fx: Effects) -> None:
        """Most of those that keep us get one of our neighbours in our place."""
        self.timers.clear()
        neighbors = [peer for peer, _ in self._view.values()]
        keepers = [peer for peer, until in self._in_view.items() if until > now]
        replaced = max(0, len(keepers) - self.config.extra_copies - 1) if neighbors else 0
        for index, keeper in enumerate(keepers):
            replacement = neighbors[index % len(neighbors)] if index < replaced else None
            fx.send(keeper, Replace(replacement), DATAGRAM)
        for peer in self._view:
            fx.send(peer, Forgotten(), DATAGRAM)

    @handles(Replace)
    def _handle_replace(self, now: int, source: NodeId, message: Replace, fx: Effects) -> None:
        if source not in self._view:
            fx.drop("replaced by one we do not know", source)
            return
        self._forget(source, fx)
        replacement = message.replacement
        if replacement is not None and replacement.id != self.node.id:
            self._keep(now, replacement, fx, tell=replacement.id not in self._view)

    # Time passing

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        if name == _LEASE:
            self._subscribe(now, fx)
            return
        self.timers.set(_HEARTBEAT, now + self.config.heartbeat_period_ns)
        for peer, (former, until) in list(self._view.items()):
            if until <= now:
                self._forget(peer, fx)
                self._remember(former)
                fx.send(peer, Forgotten(), DATAGRAM)
        for peer in [peer for peer, until in self._in_view.items() if until <= now]:
            del self._in_view[peer]
        if self._view:
            fx.send(list(self._view), Heartbeat(), DATAGRAM)
        self._silent_periods += 1
        self._unkept_periods += self._unkept_periods != _KEPT
        is_lost = self._unkept_periods >= _PATIENCE
        if is_lost or self._silent_periods >= self.config.isolated_after or not self._view:
            self._silent_periods = 0
            self._subscribe(now, fx)

    @handles(Heartbeat)
    def _handle_heartbeat(self, now: int, source: NodeId, message: Heartbeat, fx: Effects) -> None:
        self._silent_periods = 0

    def _remember(self, peer: Peer) -> None:
        self._former.pop(peer.id, None)
        self._former[peer.id] = peer
        if len(self._former) > self.config.max_contacts:
            del self._former[next(iter(self._former))]

    def _forget(self, peer: NodeId, fx: Effects) -> None:
        del self._view[peer]
        fx.neighbor_down(peer)

    # For the layers above, and for measuring

    def sample(self, k: int) -> list[NodeId]:
        return sample(self.rng, list(self._view), k)

    def neighbors(self) -> list[NodeId]:
        return list(self._view)

    def check_invariants(self) -> None:
        if len(self._view) > self.config.max_view or self.node.id in self._view:
            raise InvariantViolation(f"node {self.node} has the view {list(self._view)}")

    def statistics(self) -> Mapping[str, int | float]:
        return {
            "view": len(self._view),
            "in_view": len(self._in_view),
            "subscriptions": self._subscriptions,
        }
