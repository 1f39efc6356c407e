"""The reserve of a node: peers it knows, is not connected to, and may promote."""

from collections.abc import Iterator, Sequence
from random import Random

from epicast.core import NodeId, Peer
from epicast.core.sampling import choose, sample


class PassiveView:
    """At most `limit` peers; a full view forgets one to learn another."""

    __slots__ = ("_limit", "_peers")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peers: dict[NodeId, Peer] = {}

    def add(self, peer: Peer, rng: Random, expendable: list[NodeId] | None = None) -> None:
        """Learn `peer`. An entry of `expendable`, which is used up, or any other makes room."""
        peers = self._peers
        if peer.id in peers:
            peers[peer.id] = peer  # the newer address
            return
        if len(peers) >= self._limit:
            while expendable:
                if peers.pop(expendable.pop(), None) is not None:
                    break
            else:
                del peers[choose(rng, list(peers))]
        peers[peer.id] = peer

    def discard(self, peer: NodeId) -> None:
        self._peers.pop(peer, None)

    def sample(self, rng: Random, k: int) -> list[Peer]:
        return sample(rng, list(self._peers.values()), k)

    def choose(self, rng: Random, excluded: Sequence[NodeId]) -> Peer | None:
        """Any peer that is not excluded."""
        candidates = [peer for peer in self._peers.values() if peer.id not in excluded]
        return choose(rng, candidates) if candidates else None

    def __contains__(self, peer: NodeId) -> bool:
        return peer in self._peers

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._peers)

    def __len__(self) -> int:
        return len(self._peers)
