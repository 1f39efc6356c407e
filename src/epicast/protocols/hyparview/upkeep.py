"""What a node does all the time: renew its reserve and watch its neighbours."""

from __future__ import annotations

from random import Random

from epicast.core import Effects, NodeId, Peer, handles
from epicast.core.sampling import choose, sample
from epicast.protocols.hyparview.config import HyParViewConfig
from epicast.protocols.hyparview.links import Links
from epicast.protocols.hyparview.messages import (
    KeepAlive,
    KeepAliveReply,
    Shuffle,
    ShuffleReply,
)

Peers = tuple[Peer, ...]


class Upkeep(Links):
    __slots__ = ("_shuffled", "_shuffles")

    def __init__(self, node: Peer, config: HyParViewConfig, rng: Random) -> None:
        super().__init__(node, config, rng)
        self._shuffled: list[NodeId] | None = None
        """Passive peers in a shuffle on its way: forgotten first for those that return."""
        self._shuffles = 0

    def _start_upkeep(self, now: int) -> None:
        # A random phase keeps nodes that start together from working in step.
        for name, period in (
            ("shuffle", self.config.shuffle_period_ns),
            ("keep_alive", self.config.keep_alive_period_ns),
        ):
            if period:
                self.timers.set(name, now + 1 + int(self.rng.random() * period))

    # Shuffling

    def _shuffle_due(self, now: int, fx: Effects) -> None:
        self.timers.set("shuffle", now + self.config.shuffle_period_ns)
        if not self.active:
            return
        target = choose(self.rng, list(self.active))
        neighbors = self._sample_active(self.config.shuffle_active, target)
        reserve = self.passive.sample(self.rng, self.config.shuffle_passive)
        self._shuffled = [peer.id for peer in reserve]
        self._shuffles += 1
        peers = (self.node, *neighbors, *reserve)
        fx.send(target, Shuffle(self.node, self.config.shuffle_walk_length, peers))

    @handles(Shuffle)
    def _handle_shuffle(self, now: int, source: NodeId, message: Shuffle, fx: Effects) -> None:
        self._expect_neighbor(source, fx)
        origin = message.origin
        if origin.id == self.node.id:
            return
        received = self._bounded(source, message.peers, fx)
        ttl = min(message.ttl, self.config.shuffle_walk_length) - 1
        onward = [peer for peer in self.active if peer not in (source, origin.id)]
        if ttl > 0 and onward:
            fx.send(choose(self.rng, onward), Shuffle(origin, ttl, received))
            return
        given = self.passive.sample(self.rng, len(received))
        fx.know(origin)
        fx.send(origin.id, ShuffleReply(tuple(given)))
        self._learn(received, [peer.id for peer in given])

    @handles(ShuffleReply)
    def _handle_shuffle_reply(
        self, now: int, source: NodeId, message: ShuffleReply, fx: Effects
    ) -> None:
        if self._shuffled is None:
            fx.drop("shuffle reply without shuffle", source)
            return
        given, self._shuffled = self._shuffled, None
        self._learn(self._bounded(source, message.peers, fx), given)

    def _learn(self, peers: Peers, expendable: list[NodeId] | None = None) -> None:
        for peer in peers:
            if peer.id != self.node.id and peer.id not in self.active:
                self.passive.add(peer, self.rng, expendable)

    def _bounded(self, source: NodeId, peers: Peers, fx: Effects) -> Peers:
        if len(peers) <= self.config.max_exchange:
            return peers
        fx.drop("more peers than an exchange has", source)
        return peers[: self.config.max_exchange]

    def _sample_active(self, k: int, excluded: NodeId) -> list[Peer]:
        links = [link.peer for peer, link in self.active.items() if peer != excluded]
        return sample(self.rng, links, k)

    # Keep-alive

    def _keep_alive_due(self, now: int, fx: Effects) -> None:
        """Silence is counted in our own periods: a node that was paused suspects nobody for it."""
        self.timers.set("keep_alive", now + self.config.keep_alive_period_ns)
        limit = self.config.keep_alive_silent_periods
        silent = [peer for peer, link in self.active.items() if link.silent_periods >= limit]
        for peer in silent:
            self._neighbor_failed(now, peer, fx)
            self._release(peer, fx)
        for link in self.active.values():
            link.silent_periods += 1
        if self.active:
            fx.send(list(self.active), KeepAlive(now))
        if silent:
            self._repair(now, fx)

    @handles(KeepAlive)
    def _handle_keep_alive(self, now: int, source: NodeId, message: KeepAlive, fx: Effects) -> None:
        link = self.active.get(source)
        if link is None:
            self._expect_neighbor(source, fx)
            return
        link.silent_periods = 0
        fx.send(source, KeepAliveReply(message.sent_at))

    @handles(KeepAliveReply)
    def _handle_keep_alive_reply(
        self, now: int, source: NodeId, message: KeepAliveReply, fx: Effects
    ) -> None:
        link = self.active.get(source)
        if link is None:
            return
        link.silent_periods = 0
        if not link.since <= message.sent_at <= now:
            fx.drop("keep-alive reply to nothing", source)
            return
        measured = now - message.sent_at
        known = link.round_trip_ns
        # Smoothed as TCP does it: one slow reply is no news, eight are.
        link.round_trip_ns = measured if known is None else known + (measured - known) // 8

    def round_trip_time(self, peer: NodeId) -> int | None:
        """Nanoseconds to a neighbour and back; None if unknown."""
        link = self.active.get(peer)
        return None if link is None else link.round_trip_ns
