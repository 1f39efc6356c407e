"""Membership inside a region: views with reinforcement, after Allavena, Demers and Hopcroft.

A node that hears a neighbour's view adopts some of it in place of its own, and always the neighbour
itself. Without that last rule the graph becomes a star; with it, it stays a random graph, and nodes
that are gone disappear because they no longer reinforce themselves.

Deviation: the paper keeps a random choice of the two views together, which replaces half of a view
at a time. Every entry is copied or dropped by chance, much faster than nodes reinforce themselves,
so how many views a node is in drifts: in a region of 1000 with views of 20 one node in a hundred is
in one view or none, and hears nothing from its neighbours. Adopting a tenth of a view changes
neither how fast newcomers become known nor how fast the dead are forgotten, since both follow from
reinforcement; but with it all nodes are in several views, save one in a thousand at times.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from epicast.core import NodeId, Peer
from epicast.core.sampling import choose, sample


class ReinforcedView:
    __slots__ = ("_adopts", "_members", "_node", "_rng", "_size")

    def __init__(self, node: NodeId, size: int, rng: Random) -> None:
        self._node = node
        self._size = size
        self._adopts = min(size - 1, max(1, size // 10))
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
        members, most = self._members, self._size - 1
        members.pop(sender.id, None)
        own = (self._node, sender.id)
        unknown = [peer for peer in view if peer.id not in members and peer.id not in own]
        adopted = sample(self._rng, unknown, max(most - len(members), self._adopts))
        surplus = len(members) + len(adopted) - most
        if surplus > 0:
            for leaving in sample(self._rng, list(members), surplus):
                del members[leaving]
        for peer in adopted:
            members[peer.id] = peer
        if sender.id != self._node:
            members[sender.id] = sender

    def random_member(self) -> Peer | None:
        return self._members[choose(self._rng, list(self._members))] if self._members else None

    def sample(self, k: int, left_out: NodeId = 0) -> list[Peer]:
        eligible = [peer for peer in self._members if peer != left_out]
        return [self._members[peer] for peer in sample(self._rng, eligible, k)]
