"""The simplest membership: everybody, known from the start."""

from random import Random

from epicast.core import NodeId
from epicast.core.sampling import sample


class FullMembership:
    """A `PeerSampler` over a fixed list of nodes, which many nodes can share."""

    __slots__ = ("_everybody", "_node", "_rng")

    def __init__(self, node: NodeId, everybody: list[NodeId], rng: Random) -> None:
        self._node = node
        self._everybody = everybody
        self._rng = rng

    def sample(self, k: int) -> list[NodeId]:
        everybody, node = self._everybody, self._node
        n = len(everybody)
        if 4 * k > n:
            return sample(self._rng, [each for each in everybody if each != node], k)
        random = self._rng.random
        chosen: list[NodeId] = []
        while len(chosen) < k:
            candidate = everybody[int(random() * n)]
            if candidate != node and candidate not in chosen:
                chosen.append(candidate)
        return chosen
