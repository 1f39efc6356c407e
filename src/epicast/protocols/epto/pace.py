"""How long a round is: about as long as a message is under way."""

from __future__ import annotations

from collections import deque
from statistics import median

from epicast.core import NodeId
from epicast.protocols.epto.config import EptoConfig

_MEASURED = 32
"""Latencies of our own that are remembered."""
_HEARD = 31
"""Other nodes' latencies that are."""
_MAX_PROBES = 8
"""Under way at a time: the others are lost."""


class Pace:
    """The period follows the latencies that this node and others measure.

    Nodes whose rounds differ much lose events (claim E5), so each takes what most of them take for
    long enough: three quarters of the latencies heard of are not above it.
    """

    __slots__ = ("_config", "_heard", "_measured", "_number", "_probes", "latency_ns", "period_ns")

    def __init__(self, config: EptoConfig) -> None:
        self._config = config
        self._measured: deque[int] = deque(maxlen=_MEASURED)
        self._heard: dict[NodeId, int] = {}
        self._probes: dict[int, int] = {}
        """When each was sent, by number."""
        self._number = 0
        self.period_ns: int = config.round_period_ns
        self.latency_ns = 0
        """The middle of those measured here."""

    @property
    def hops_take_rounds(self) -> bool:
        """Whether a message takes about as long as a round."""
        return 2 * self.latency_ns >= self.period_ns

    def probe(self, now: int) -> int:
        """The number of a probe sent now."""
        self._number += 1
        self._probes[self._number] = now
        if len(self._probes) > _MAX_PROBES:
            del self._probes[next(iter(self._probes))]
        return self._number

    def answered(self, now: int, number: int) -> bool:
        """Whether this was asked for."""
        sent = self._probes.pop(number, None)
        if sent is None:
            return False
        self._measured.append((now - sent) // 2)
        self.latency_ns = int(median(self._measured))
        self._adapt()
        return True

    def hear(self, peer: NodeId, latency_ns: int) -> None:
        """What another node measures."""
        self._heard.pop(peer, None)
        self._heard[peer] = latency_ns
        if len(self._heard) > _HEARD:
            del self._heard[next(iter(self._heard))]

    def _adapt(self) -> None:
        config = self._config
        latencies = sorted([self.latency_ns, *self._heard.values()])
        wanted = latencies[3 * (len(latencies) - 1) // 4]
        self.period_ns = max(config.min_round_ns, min(config.max_round_ns, wanted))
