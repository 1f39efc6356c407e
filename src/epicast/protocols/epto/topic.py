"""EpTO as the protocol of a topic: on Cyclon, and with deliveries as applications know them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from epicast.core import Effects, EventBatch, Peer, Protocol, Publication, Stack
from epicast.core.sampling import derive_seed
from epicast.protocols.cyclon import Cyclon, CyclonConfig
from epicast.protocols.epto.config import EptoConfig
from epicast.protocols.epto.entries import by_source
from epicast.protocols.epto.pace import Pace
from epicast.protocols.epto.protocol import Epto

SHUFFLE = "shuffle"
"""The timer of Cyclon."""
_JOIN_WALK_LENGTH = 2
"""With 30 neighbours two hops more than the first lead to anybody in a system of thousands, and a
joiner is connected after half as long as with Cyclon's own five."""
_ANSWERS_TAKE = 3
"""Latencies until the answer to a shuffle has come, nearly always; as long as nobody has measured
them, a round counts as one."""
_HOUR_NS = 3600 * 10**9


def membership_config(config: EptoConfig) -> CyclonConfig:
    return CyclonConfig(
        view_size=config.view_size,
        shuffle_length=config.shuffle_length,
        shuffle_period_ns=config.shuffle_period_ns
        or min(_ANSWERS_TAKE * config.round_period_ns, _HOUR_NS),
        ping_period_ns=config.ping_period_ns,
        join_walk_length=_JOIN_WALK_LENGTH,
    )


class RoundCyclon(Cyclon):
    """Shuffles once per round of the order above it, however long rounds become, or as soon as the
    answer to the last shuffle must have come."""

    __slots__ = ("pace",)

    def __init__(self, node: Peer, config: CyclonConfig, rng: Random, pace: Pace) -> None:
        super().__init__(node, config, rng)
        self.pace = pace

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        super().on_deadline(now, name, fx)
        if name == SHUFFLE:
            latency = self.pace.latency_ns or self.pace.period_ns
            period = max(self.pace.period_ns, _ANSWERS_TAKE * latency)
            self.timers.set(SHUFFLE, now + self._stretched(period))


class BySource(Protocol[EptoConfig]):
    """The top of the stack: what is delivered in one batch becomes batches of one publisher each,
    in the same order, under the publisher's numbers."""

    __slots__ = ()

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        for publication in publications:
            fx.publish_below(publication)

    def on_delivery(self, now: int, batch: EventBatch, fx: Effects) -> None:
        for part in by_source(batch):
            fx.deliver(part)


class OrderedTopic(Stack):
    """Cyclon, EpTO and `BySource`; `order` is the part that knows what is to come."""

    __slots__ = ("order",)

    def __init__(self, node: Peer, config: EptoConfig, rng: Random) -> None:
        seeds = [derive_seed(rng.getrandbits(64), position) for position in range(3)]
        self.order = Epto(node, config, Random(seeds[1]))
        membership, membership_rng = membership_config(config), Random(seeds[0])
        layers: list[Protocol[Any]] = [
            Cyclon(node, membership, membership_rng)
            if config.shuffle_period_ns
            else RoundCyclon(node, membership, membership_rng, self.order.pace),
            self.order,
            BySource(node, config, Random(seeds[2])),
        ]
        super().__init__(node, rng, layers)


def largest_event(config: EptoConfig) -> int:
    return config.max_event_bytes
