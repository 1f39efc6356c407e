"""The views of a node and how links come about: asking peers, replacing failed ones, re-joining.

At most one attempt to win a neighbour is under way at a time. While there are fewer neighbours than
the target, either an attempt is running or the timer `repair` is armed, so nothing is forgotten.
"""

from __future__ import annotations

from enum import IntEnum
from random import Random
from typing import NamedTuple

from epicast.core import NEVER, Effects, InvariantViolation, NodeId, Peer, Protocol
from epicast.core.sampling import choose
from epicast.protocols.hyparview.config import HyParViewConfig
from epicast.protocols.hyparview.messages import Disconnect, Join, Neighbor
from epicast.protocols.hyparview.passive import PassiveView


class Link:
    """What is known of one neighbour."""

    __slots__ = ("peer", "round_trip_ns", "silent_periods", "since")

    def __init__(self, peer: Peer, since: int) -> None:
        self.peer = peer
        self.since = since
        self.silent_periods = 0
        """Keep-alives sent since the neighbour was last heard of."""
        self.round_trip_ns: int | None = None


class Aim(IntEnum):
    JOIN = 0
    PROMOTE = 1
    RECONNECT = 2


class Attempt(NamedTuple):
    """We are connecting to `peer`, or wait for it to say whether it takes us."""

    peer: Peer
    aim: Aim


class Links(Protocol[HyParViewConfig]):
    __slots__ = ("_attempt", "_backoff_ns", "_contacts", "_evictions", "_failures", "_in_vain",
                 "_lost", "_promotions", "_refusals", "active", "passive")  # fmt: skip

    def __init__(self, node: Peer, config: HyParViewConfig, rng: Random) -> None:
        super().__init__(node, config, rng)
        self.active: dict[NodeId, Link] = {}
        self.passive = PassiveView(config.passive_view)
        self._attempt: Attempt | None = None
        self._in_vain: list[NodeId] = []
        """Asked without success since the last repair: at most passive view and contacts."""
        self._contacts: list[Peer] = []
        self._backoff_ns = config.rejoin_backoff_ns
        self._lost: list[tuple[Peer, int]] = []
        """Failed neighbours and how often they may still be tried."""
        self._evictions = 0
        self._failures = 0
        self._promotions = 0
        self._refusals = 0

    # Links

    def _link(self, now: int, peer: Peer, fx: Effects) -> None:
        """Make `peer` a neighbour, whatever the room."""
        if len(self.active) >= self.config.max_active_view:
            self._evict(fx)
        self.passive.discard(peer.id)
        self.active[peer.id] = Link(peer, now)
        if not self._attempting(peer.id):
            fx.connect(peer)
        fx.neighbor_up(peer.id)
        self._backoff_ns = self.config.rejoin_backoff_ns
        if len(self.active) < self.config.active_view:
            self._schedule_repair(now)
        else:
            self.timers.cancel("repair")

    def _unlink(self, peer: NodeId, fx: Effects) -> Peer:
        fx.neighbor_down(peer)
        return self.active.pop(peer).peer

    def _relink(self, now: int, peer: Peer, fx: Effects) -> None:
        """A neighbour has forgotten us and comes anew: the layer above must start anew with it."""
        self._unlink(peer.id, fx)
        self.active[peer.id] = Link(peer, now)
        fx.neighbor_up(peer.id)

    def _expect_neighbor(self, source: NodeId, fx: Effects) -> None:
        """What neighbours alone say came from `source`: if it is none, it has to be told."""
        if source not in self.active and not self._attempting(source):
            fx.send(source, Disconnect(leaving=False))

    def _release(self, peer: NodeId, fx: Effects) -> None:
        """Give up the connection, unless it has another use."""
        if peer not in self.active and not self._attempting(peer):
            fx.disconnect(peer)

    def _evict(self, fx: Effects) -> None:
        """Make room in the active view. No replacement: the view is at its largest."""
        victim = choose(self.rng, list(self.active))
        self.passive.add(self._unlink(victim, fx), self.rng)
        fx.send(victim, Disconnect(leaving=False))
        self._release(victim, fx)
        self._evictions += 1

    def _neighbor_failed(self, now: int, peer: NodeId, fx: Effects) -> None:
        """A failed peer does not go to the passive view, but it may come back."""
        lost = self._unlink(peer, fx)
        self._failures += 1
        if not self.config.lost_memory:
            return
        self._forget_lost(peer)
        if len(self._lost) >= self.config.lost_memory:
            # Not the oldest: that may be the last that remembers the far side of a partition.
            del self._lost[int(self.rng.random() * len(self._lost))]
        self._lost.append((lost, self.config.reconnect_attempts))
        if self.timers.deadline("reconnect") == NEVER:
            self.timers.set("reconnect", now + self.config.reconnect_period_ns)

    def _forget_lost(self, peer: NodeId) -> None:
        self._lost = [entry for entry in self._lost if entry[0].id != peer]

    # Attempts

    def _attempting(self, peer: NodeId) -> bool:
        return self._attempt is not None and self._attempt.peer.id == peer

    def _repair(self, now: int, fx: Effects) -> None:
        """Ask the next candidate if neighbours are missing and nobody is being asked."""
        if self._attempt is not None or len(self.active) >= self.config.active_view:
            return
        candidate = None
        if not self.active or len(self._in_vain) < self.config.promotion_attempts:
            candidate = self.passive.choose(self.rng, self._in_vain)
        if candidate is not None:
            self._ask(now, candidate, Aim.PROMOTE, fx)
            return
        if not (self.active and self.passive):
            barred = {*self._in_vain, *self.active}
            contacts = [peer for peer in self._contacts if peer.id not in barred]
            if contacts:
                self._ask(now, choose(self.rng, contacts), Aim.JOIN, fx)
                return
        self._schedule_repair(now)

    def _schedule_repair(self, now: int) -> None:
        if self.active:
            wait = self.config.repair_period_ns
        else:
            # Jitter, or all nodes that lost the same contact come back to it at once.
            wait = int(self._backoff_ns * (0.5 + self.rng.random() / 2))
        self.timers.set("repair", min(now + wait, self.timers.deadline("repair")))

    def _ask(self, now: int, peer: Peer, aim: Aim, fx: Effects) -> None:
        self._attempt = Attempt(peer, aim)
        self.timers.set("attempt", now + self.config.attempt_timeout_ns)
        fx.connect(peer)

    def _end_attempt(self, fx: Effects) -> Attempt:
        attempt = self._attempt
        assert attempt is not None
        self._attempt = None
        self.timers.cancel("attempt")
        self._release(attempt.peer.id, fx)
        return attempt

    def _attempt_failed(self, attempt: Attempt) -> None:
        self.passive.discard(attempt.peer.id)
        if attempt.aim == Aim.JOIN:
            self._in_vain.append(attempt.peer.id)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        attempt = self._attempt
        if attempt is None or attempt.peer.id != peer:
            return
        if peer in self.active:  # it asked us while we were connecting
            self._end_attempt(fx)
            self._repair(now, fx)
        elif attempt.aim == Aim.JOIN:
            fx.send(peer, Join(self.node))
        else:
            few = len(self.active) < self.config.urgent_below
            urgent = few or attempt.aim == Aim.RECONNECT
            fx.send(peer, Neighbor(self.node, high_priority=urgent))

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        if self._attempting(peer):
            attempt, self._attempt = self._attempt, None
            assert attempt is not None
            self.timers.cancel("attempt")
            self._attempt_failed(attempt)
        if peer in self.active:
            self._neighbor_failed(now, peer, fx)
        self._repair(now, fx)

    # Timers

    def _attempt_due(self, now: int, fx: Effects) -> None:
        self._attempt_failed(self._end_attempt(fx))
        self._repair(now, fx)

    def _repair_due(self, now: int, fx: Effects) -> None:
        self._in_vain.clear()
        if not self.active:
            self._backoff_ns = min(2 * self._backoff_ns, self.config.rejoin_backoff_max_ns)
        self._repair(now, fx)

    def _reconnect_due(self, now: int, fx: Effects) -> None:
        self._lost = [entry for entry in self._lost if entry[0].id not in self.active]
        # Even with a full view: two halves that are as large as a view is would stay apart.
        if self._lost and self._attempt is None:
            peer, attempts = self._lost.pop(0)
            if attempts > 1:
                self._lost.append((peer, attempts - 1))
            self._ask(now, peer, Aim.RECONNECT, fx)
        if self._lost:
            self.timers.set("reconnect", now + self.config.reconnect_period_ns)

    def check_invariants(self) -> None:
        config, active, passive = self.config, self.active, self.passive
        bounds = (
            ("active view", len(active), config.max_active_view),
            ("passive view", len(passive), config.passive_view),
            ("lost neighbours", len(self._lost), config.lost_memory),
            ("contacts", len(self._contacts), config.max_contacts),
        )
        for what, size, limit in bounds:
            if size > limit:
                raise InvariantViolation(f"node {self.node}: {what} {size}, at most {limit}")
        if self.node.id in active or self.node.id in passive:
            raise InvariantViolation(f"node {self.node} is in its own view")
        both = [peer for peer in active if peer in passive]
        if both:
            raise InvariantViolation(f"node {self.node}: {both} are both active and passive")
        armed = self.timers.deadline
        if (self._attempt is None) != (armed("attempt") == NEVER):
            raise InvariantViolation(f"node {self.node}: attempt {self._attempt} and its timer")
        running = armed("shuffle") != NEVER
        idle = self._attempt is None and armed("repair") == NEVER
        if running and idle and len(active) < config.active_view:
            raise InvariantViolation(f"node {self.node}: {len(active)} neighbours, no repair due")
