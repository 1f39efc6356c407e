"""Who a node knows: `view`, `subs` and `unSubs` of the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

from epicast.core import Effects, NodeId, Peer
from epicast.core.sampling import sample
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.messages import Subscription, Unsubscription

MAX_LIFE = 2**62
"""Lives are times in nanoseconds, or smaller. Nobody who lives it can be unsubscribed, so one whom
others keep unsubscribing has the last word; later ones are nobody's."""
_WELL_KNOWN = 64
"""Frequencies from here on are counted as one."""


class _Known:
    """A bounded set of members, each with how often it was heard of."""

    __slots__ = ("frequency", "members")

    def __init__(self) -> None:
        self.members: dict[NodeId, Subscription] = {}
        self.frequency: dict[NodeId, int] = {}

    def add(self, member: Subscription, frequency: int) -> None:
        self.members[member.peer.id] = member
        self.frequency[member.peer.id] = frequency

    def pop(self, peer: NodeId) -> Subscription:
        del self.frequency[peer]
        return self.members.pop(peer)

    def random(self, rng: Random) -> NodeId:
        peers = list(self.members)
        return peers[int(rng.random() * len(peers))]

    def often_heard_of(self, rng: Random, threshold: float) -> NodeId:
        """SELECT_PROCESS (Fig. 9(b)). Ends: whoever is passed over counts as heard of once more."""
        frequency = self.frequency
        peers = list(frequency)
        bar = threshold * sum(frequency.values()) / len(peers)
        while True:
            target = peers[int(rng.random() * len(peers))]
            if frequency[target] > bar:
                return target
            frequency[target] += 1


class Membership:
    __slots__ = ("_config", "_life", "_node", "_rng", "_subs", "_unsubs", "_view", "removed")

    def __init__(self, node: Peer, config: LpbcastConfig, rng: Random) -> None:
        self._node = node
        self._life = 0
        self._config = config
        self._rng = rng
        self._view = _Known()
        self._subs = _Known()
        self._unsubs: dict[NodeId, Unsubscription] = {}
        self.removed: Counter[int] = Counter()
        """Subscriptions purged from `subs`, by how often they were heard of (up to a bound)."""

    @property
    def view(self) -> dict[NodeId, Subscription]:
        """For reading."""
        return self._view.members

    def begin(self, life: int) -> None:
        self._life = min(life, MAX_LIFE)

    def own(self) -> Subscription:
        return Subscription(self._node, self._life)

    def address(self, peer: NodeId) -> Peer | None:
        found = self._view.members.get(peer) or self._subs.members.get(peer)
        return found.peer if found is not None else None

    def hear(self, subscriptions: Iterable[Subscription], fx: Effects, frequency: int = 1) -> None:
        """Phase II of gossip reception."""
        view, subs = self._view, self._subs
        known, view_frequency = view.members, view.frequency
        forwarded, subs_frequency = subs.members, subs.frequency
        me, unsubs = self._node.id, self._unsubs
        everything = self._config.membership == "frequency"
        added: list[NodeId] = []
        for member in subscriptions:
            peer = member.peer.id
            if not 0 <= member.life <= MAX_LIFE:
                fx.drop("implausible life", peer)
                continue
            if peer in known:
                view_frequency[peer] += 1
                if member.life > known[peer].life:
                    known[peer] = member
                fresh = everything
            else:
                if peer == me or (unsubs and self._has_left(member)):
                    continue
                known[peer] = member
                view_frequency[peer] = frequency
                added.append(peer)
                fresh = True
            if peer in subs_frequency:
                subs_frequency[peer] += 1
            elif fresh:
                forwarded[peer] = member
                subs_frequency[peer] = frequency
        self._truncate(added, fx)

    def leave(self, unsubscriptions: Iterable[Unsubscription], fx: Effects) -> None:
        """Phase I of gossip reception."""
        config, unsubs = self._config, self._unsubs
        for item in unsubscriptions:
            if not 0 <= item.life < MAX_LIFE:
                fx.drop("implausible life", item.peer)
                continue
            if item.peer == self._node.id:
                self._refute(item, fx)
                continue
            rounds = min(item.rounds, config.unsubscription_rounds)
            before = unsubs.get(item.peer)
            if rounds <= 0 or (before and (before.life, before.rounds) >= (item.life, rounds)):
                continue
            unsubs[item.peer] = Unsubscription(item.peer, item.life, rounds)
            self._forget(item, fx)
        surplus = len(unsubs) - config.max_unsubs
        if surplus > 0:
            for peer in sample(self._rng, list(unsubs), surplus):
                del unsubs[peer]

    def age_unsubscriptions(self) -> None:
        """A round has passed."""
        if self._unsubs:
            self._unsubs = {
                peer: Unsubscription(peer, item.life, item.rounds - 1)
                for peer, item in self._unsubs.items()
                if item.rounds > 1
            }

    def subscriptions(self) -> list[Subscription]:
        return list(self._subs.members.values())

    def unsubscriptions(self) -> list[Unsubscription]:
        return list(self._unsubs.values())

    def goodbye(self) -> Unsubscription:
        return Unsubscription(self._node.id, self._life, self._config.unsubscription_rounds)

    def sample(self, k: int) -> list[NodeId]:
        return sample(self._rng, list(self._view.members), k)

    def problems(self) -> str:
        """What is impossible about the state, if anything."""
        config = self._config
        for name, held, limit in (
            ("view", self._view.members, config.view_size),
            ("subs", self._subs.members, config.max_subs),
            ("unSubs", self._unsubs, config.max_unsubs),
        ):
            if len(held) > limit:
                return f"{len(held)} in {name}, at most {limit}"
            if self._node.id in held:
                return f"the node itself is in {name}"
        return ""

    def _truncate(self, added: list[NodeId], fx: Effects) -> None:
        """Bring `view` and `subs` back to their limits; what leaves the view is passed on."""
        config, rng = self._config, self._rng
        by_frequency, threshold = config.membership == "frequency", config.frequency_threshold
        view, subs = self._view, self._subs
        evicted: list[NodeId] = []
        while len(view.members) > config.view_size:
            target = view.often_heard_of(rng, threshold) if by_frequency else view.random(rng)
            heard_of = view.frequency[target]
            member = view.pop(target)
            evicted.append(target)
            if target not in subs.members:
                subs.add(member, heard_of)
        while len(subs.members) > config.max_subs:
            target = subs.often_heard_of(rng, threshold) if by_frequency else subs.random(rng)
            self.removed[min(subs.frequency[target], _WELL_KNOWN)] += 1
            subs.pop(target)
        for peer in evicted:
            if peer not in added:
                fx.neighbor_down(peer)
        for peer in added:
            if peer in view.members:
                fx.know(view.members[peer].peer)
                fx.neighbor_up(peer)

    def _has_left(self, member: Subscription) -> bool:
        item = self._unsubs.get(member.peer.id)
        return item is not None and member.life <= item.life

    def _forget(self, item: Unsubscription, fx: Effects) -> None:
        subscribed = self._subs.members.get(item.peer)
        if subscribed is not None and subscribed.life <= item.life:
            self._subs.pop(item.peer)
        neighbor = self._view.members.get(item.peer)
        if neighbor is not None and neighbor.life <= item.life:
            self._view.pop(item.peer)
            fx.neighbor_down(item.peer)

    def _refute(self, item: Unsubscription, fx: Effects) -> None:
        """Somebody says that we have left: an earlier life of ours, or nobody. A later life than
        the one unsubscribed is what says otherwise."""
        if self._life <= item.life:
            self._life = item.life + 1
            fx.drop("unsubscription of this node")
