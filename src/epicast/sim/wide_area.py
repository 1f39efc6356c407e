"""The ways between the regions of a geoplex, each with its own delay, loss and bandwidth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from epicast.core import NodeId
from epicast.deployment import Link
from epicast.sim.latency import MatrixLatency

_RETRANSMIT_NS = 200_000_000
_RETRANSMISSIONS = 8


class WideAreaLatency(MatrixLatency):
    """Loss shows as delay, as it does on connections; messages queue where bandwidth is scarce."""

    def __init__(
        self,
        delays_ns: NDArray[np.int64],
        placement: Mapping[NodeId, int],
        links: Mapping[tuple[int, int], Link],
        seed: int,
    ) -> None:
        """`links` are those between sites that have more to them than a delay."""
        super().__init__(delays_ns, placement)
        self._links = links
        self._rng = Random(seed)
        self._free_at: dict[tuple[int, int], int] = {}

    def draw(self, source: NodeId, targets: Sequence[NodeId]) -> list[int]:
        delays = super().draw(source, targets)
        if not self._links:
            return delays
        site = self.site(source)
        for index, target in enumerate(targets):
            link = self._links.get((site, self.site(target)))
            if link is not None and link.loss:
                delays[index] += self._lost_ns(link.loss)
        return delays

    def transfer_ns(self, now: int, source: NodeId, target: NodeId, size: int) -> int:
        """How long a message waits for its turn and then takes to be put on the way."""
        if not self._links:
            return 0
        way = (self.site(source), self.site(target))
        link = self._links.get(way)
        if link is None or link.bandwidth_bytes_per_second is None:
            return 0
        begin = max(now, self._free_at.get(way, 0))
        done = begin + size * 1_000_000_000 // link.bandwidth_bytes_per_second
        self._free_at[way] = done
        return done - now

    def _lost_ns(self, loss: float) -> int:
        for tries in range(_RETRANSMISSIONS):
            if self._rng.random() >= loss:
                return tries * _RETRANSMIT_NS
        return _RETRANSMISSIONS * _RETRANSMIT_NS
