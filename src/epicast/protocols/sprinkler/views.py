"""Membership inside a region: views with reinforcement, after Allavena, Demers and Hopcroft.

A node that hears a neighbour's view keeps a random choice of the two views together, and always the
neighbour itself. Without that last rule the graph becomes a star; with it, it stays a random graph,
and nodes that are gone disappear because they no longer reinforce themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from epicast.core import NodeId, Peer
from epicast.core.sampling import choose, sample


class ReinforcedView:
    __slots__ = ("_members", "_node", "_rng", "_size")

    def __init__(self, node: NodeId, size: int, rng: Random) -> None:
        self._node = node
        self._size = size
        self._rng = rng
        self._members: dict[NodeId, Peer] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, peer: NodeId) -> bool:
        return peer in self._members

    def members(self) -> tuple[Peer, ...]:
        return tuple(self._members.values())

    def ids(self) -> list[NodeId]:
        return list(self._members)

    def add(self, peer: Peer) -> None:
        """Take somebody in, in somebody else's place if the view is full."""
        self.merge(peer, ())

    def remove(self, peer: NodeId) -> None:
        self._members.pop(peer, None)

    def merge(self, sender: Peer, view: Iterable[Peer]) -> None:
        """What a neighbour's view makes of this one; the neighbour is in it afterwards."""
        members = self._members
        for peer in view:
            if peer.id not in members:
                members[peer.id] = peer
        members.pop(self._node, None)
        members.pop(sender.id, None)
        surplus = len(members) - (self._size - 1)
        if surplus > 0:
            for leaving in sample(self._rng, list(members), surplus):
                del members[leaving]
        if sender.id != self._node:
            members[sender.id] = sender

    def random_member(self) -> Peer | None:
        return self._members[choose(self._rng, list(self._members))] if self._members else None

    def sample(self, k: int, left_out: NodeId = 0) -> list[Peer]:
        eligible = [peer for peer in self._members if peer != left_out]
        return [self._members[peer] for peer in sample(self._rng, eligible, k)]
