from __future__ import annotations

from collections.abc import Mapping, Sequence

from epicast.core import Effects, NodeId, Peer, Recovered, handles
from epicast.core.sampling import choose, sample, sample_except
from epicast.protocols.hyparview.links import Aim
from epicast.protocols.hyparview.messages import (
    Disconnect,
    ForwardJoin,
    Join,
    Neighbor,
    NeighborReply,
    Welcome,
)
from epicast.protocols.hyparview.upkeep import Upkeep


class HyParView(Upkeep):
    """`active` are the neighbours, told to the layer above; `passive` is the reserve."""

    __slots__ = ()

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        others = [peer for peer in contacts if peer.id != self.node.id]
        self._contacts = sample(self.rng, others, self.config.max_contacts)
        self._start_upkeep(now)
        self._repair(now, fx)

    def on_stop(self, now: int, fx: Effects) -> None:
        neighbors = list(self.active)
        if neighbors:
            fx.send(neighbors, Disconnect(leaving=True))
        for peer in neighbors:
            self._unlink(peer, fx)
            self._release(peer, fx)
        if self._attempt is not None:
            self._end_attempt(fx)
        self.timers.clear()

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        _DEADLINES[name](self, now, fx)

    # Joining

    @handles(Join)
    def _handle_join(self, now: int, source: NodeId, message: Join, fx: Effects) -> None:
        if not self._speaks_for_itself(source, message.joiner, fx):
            return
        if source in self.active:
            self._relink(now, message.joiner, fx)
        else:
            self._link(now, message.joiner, fx)
        fx.send(source, Welcome(self.node, self._exchange(source)))
        walkers = sample_except(self.rng, list(self.active), self.config.join_links - 1, (source,))
        if walkers:
            fx.send(walkers, ForwardJoin(message.joiner, self.config.active_walk_length))

    @handles(ForwardJoin)
    def _handle_forward_join(
        self, now: int, source: NodeId, message: ForwardJoin, fx: Effects
    ) -> None:
        self._expect_neighbor(source, fx)
        joiner = message.joiner
        ttl = min(message.ttl, self.config.active_walk_length)
        onward = [peer for peer in self.active if peer not in (source, joiner.id)]
        if ttl > 0 and onward:
            if ttl == self.config.passive_walk_length:
                self._learn((joiner,))
            fx.send(choose(self.rng, onward), ForwardJoin(joiner, ttl - 1))
        elif joiner.id != self.node.id and joiner.id not in self.active:
            self._link(now, joiner, fx)
            fx.send(joiner.id, Welcome(self.node, self._exchange(joiner.id)))

    @handles(Welcome)
    def _handle_welcome(self, now: int, source: NodeId, message: Welcome, fx: Effects) -> None:
        if not self._speaks_for_itself(source, message.sender, fx):
            return
        self._accept(now, message.sender, fx)
        self._learn(self._bounded(source, message.peers, fx))
        attempt = self._attempt
        if attempt is None or attempt.peer.id != source or attempt.aim != Aim.JOIN:
            return
        self._end_attempt(fx)
        if len(self.active) < self.config.active_view:
            # Not at once: the join walks are about to bring neighbours too.
            self._schedule_repair(now)

    # Promotion

    @handles(Neighbor)
    def _handle_neighbor(self, now: int, source: NodeId, message: Neighbor, fx: Effects) -> None:
        requester = message.requester
        if not self._speaks_for_itself(source, requester, fx):
            return
        room = len(self.active) < self.config.active_view
        accepted = message.high_priority or room or source in self.active
        if not accepted:
            fx.know(requester)
        elif source not in self.active:
            self._link(now, requester, fx)
        fx.send(source, NeighborReply(accepted))

    @handles(NeighborReply)
    def _handle_neighbor_reply(
        self, now: int, source: NodeId, message: NeighborReply, fx: Effects
    ) -> None:
        attempt = self._attempt
        if attempt is None or attempt.peer.id != source or attempt.aim == Aim.JOIN:
            if message.accepted:  # too late: we have given up on it
                self._expect_neighbor(source, fx)
            return
        if message.accepted:
            self._promotions += 1
            if attempt.aim == Aim.RECONNECT:
                if source not in self.active:
                    self._link(now, attempt.peer, fx)
                self._lost.clear()  # one is enough: more would only swell the view
            else:
                self._accept(now, attempt.peer, fx)
        else:
            self._refusals += 1
            self._in_vain.append(source)
        self._end_attempt(fx)
        self._repair(now, fx)

    @handles(Disconnect)
    def _handle_disconnect(
        self, now: int, source: NodeId, message: Disconnect, fx: Effects
    ) -> None:
        """Only neighbours are concerned: a peer that we are asking answers for itself."""
        if message.leaving:
            self.passive.discard(source)
            self._forget_lost(source)
        if source not in self.active:
            return
        peer = self._unlink(source, fx)
        self._release(source, fx)
        if not message.leaving:
            self._learn((peer,))
        self._repair(now, fx)

    # Helpers

    def _accept(self, now: int, peer: Peer, fx: Effects) -> None:
        """`peer` holds us as its neighbour: hold it too, or say that we do not."""
        if peer.id in self.active:
            return
        if len(self.active) < self.config.max_active_view:
            self._link(now, peer, fx)
        else:
            fx.know(peer)
            fx.send(peer.id, Disconnect(leaving=False))

    def _speaks_for_itself(self, source: NodeId, claimed: Peer, fx: Effects) -> bool:
        if claimed.id == source and source != self.node.id:
            return True
        fx.drop("message in another's name", source)
        return False

    def _exchange(self, recipient: NodeId) -> tuple[Peer, ...]:
        """A start for the passive view of a new neighbour."""
        neighbors = self._sample_active(self.config.shuffle_active, recipient)
        reserve = self.passive.sample(self.rng, self.config.shuffle_passive)
        return (*neighbors, *reserve)

    # For the layers above, and for measuring

    def sample(self, k: int) -> list[NodeId]:
        return sample(self.rng, list(self.active), k)

    def neighbors(self) -> list[NodeId]:
        return list(self.active)

    def statistics(self) -> Mapping[str, int | float]:
        return {
            "active": len(self.active),
            "passive": len(self.passive),
            "evictions": self._evictions,
            "failures": self._failures,
            "promotions": self._promotions,
            "refusals": self._refusals,
            "shuffles": self._shuffles,
        }


_DEADLINES = {
    "attempt": HyParView._attempt_due,
    "keep_alive": HyParView._keep_alive_due,
    "reconnect": HyParView._reconnect_due,
    "repair": HyParView._repair_due,
    "shuffle": HyParView._shuffle_due,
}
