"""Which settings a gossip topic needs, and what they buy: the analysis, read backwards."""

from __future__ import annotations

from math import ceil, inf

from msgspec import Struct

from epicast.core import ConfigError
from epicast.protocols.lpbcast.analysis import MAX_NODES, Spread, rounds_to_partition
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.messages import GOSSIP_BYTES, digest_bytes, notification_bytes
from epicast.wire import DATAGRAM_HEADER_BYTES

_SECOND = 1_000_000_000
_YEAR_S = 365 * 24 * 3600
_MOST_FANOUT = 30
_VIEW_PER_FANOUT = 4
"""Entries of the view per target of a round: some are dead, and what was chosen last is still in
the minds of its neighbours."""
_PARTITION_RISK = 1e-3
_BATCH_BYTES = 64
"""Of a batch with one event, besides the event."""
_SUBSCRIPTION_BYTES = 45


class Plan(Struct, frozen=True, kw_only=True):
    """Settings, and what the analysis says of them."""

    nodes: int
    loss: float
    crash: float
    reliability: float
    """That was asked for: of a given process getting a given event, before any retrieval."""
    fanout: int
    view_size: int
    max_subs: int
    max_events: int
    max_age_rounds: int
    critical_age_rounds: int
    max_datagrams: int
    rounds: int
    """Until an event has reached a given process with the reliability asked for."""
    rounds_to_99: float
    latency_ms: float
    """Of so many rounds."""
    reached: float
    """Probability that a process has an event when it may be purged, retrieval not counted."""
    years_to_partition: float
    """Until the views fall apart with a probability of one in a thousand."""
    bytes_per_s: int
    """Sent by a node, at the most."""
    memory_bytes: int
    """Of a node's buffers, at the most."""

    def config(self, gossip_period_ns: int) -> LpbcastConfig:
        return LpbcastConfig(
            gossip_period_ns=gossip_period_ns,
            fanout=self.fanout,
            view_size=self.view_size,
            max_subs=self.max_subs,
            max_events=self.max_events,
            max_age_rounds=self.max_age_rounds,
            critical_age_rounds=self.critical_age_rounds,
            max_datagrams=self.max_datagrams,
        )


def plan_gossip(
    nodes: int,
    *,
    loss: float = 0.05,
    crash: float = 0.01,
    reliability: float = 0.99,
    events_per_s: float = 10.0,
    event_bytes: int = 100,
    batch_events: int = 1,
    period_ns: int = _SECOND // 5,
    within_rounds: int = 10,
) -> Plan:
    """The least fanout that reaches a process with `reliability` in `within_rounds` rounds, and
    buffers that keep an event for as long as that takes at `events_per_s` in the whole system.
    `batch_events` are published together: they share what a batch costs."""
    if not 2 <= nodes <= MAX_NODES:
        raise ConfigError(f"nodes: {nodes} is not between 2 and {MAX_NODES:,}")
    if not 0 < reliability < 1:
        raise ConfigError(f"reliability: {reliability} is not between 0 and 1, as 0.99 is")
    if events_per_s < 0 or event_bytes < 0 or period_ns < 1 or within_rounds < 1:
        raise ConfigError("events_per_s, event_bytes, period and within_rounds are not negative")
    if batch_events < 1:
        raise ConfigError(f"batch_events: {batch_events} is not at least 1")
    spread, rounds = _least_fanout(nodes, loss, crash, reliability, within_rounds)
    fanout = spread.fanout
    view = _view(nodes, fanout, period_ns)
    per_round = events_per_s * period_ns / _SECOND
    max_events = max(10, ceil(per_round * rounds))
    subs = max(4, ceil(3 * view / fanout))
    config = LpbcastConfig()
    # A batch that does not fit a datagram is cut, and each part costs as much as a whole one.
    fitting = (config.max_message_bytes - GOSSIP_BYTES - notification_bytes(_BATCH_BYTES)) // max(
        1, event_bytes
    )
    together = max(1, min(batch_events, fitting))
    inline = notification_bytes(_BATCH_BYTES) / together + event_bytes
    membership = GOSSIP_BYTES + (subs + 1) * _SUBSCRIPTION_BYTES + 10 * digest_bytes(1)
    datagrams = max(1, ceil((membership + max_events * inline) / config.max_message_bytes))
    sent = membership + max_events * inline + datagrams * DATAGRAM_HEADER_BYTES
    yearly = _YEAR_S * _SECOND / period_ns
    return Plan(
        nodes=nodes,
        loss=loss,
        crash=crash,
        reliability=reliability,
        fanout=fanout,
        view_size=view,
        max_subs=subs,
        max_events=max_events,
        max_age_rounds=2 * rounds,
        critical_age_rounds=rounds,
        max_datagrams=min(64, datagrams),
        rounds=rounds,
        rounds_to_99=round(spread.rounds_to(0.99), 2),
        latency_ms=rounds * period_ns / 1e6,
        reached=min(1.0, spread.infected(rounds)[-1] / nodes),
        years_to_partition=_rounds_to_split(nodes, view) / yearly,
        bytes_per_s=ceil(sent * fanout * _SECOND / period_ns),
        memory_bytes=(view + subs) * 300 + (max_events + config.max_stored_events) * (
            event_bytes + ceil(400 / together)
        ),
    )  # fmt: skip


def _least_fanout(
    nodes: int, loss: float, crash: float, reliability: float, within: int
) -> tuple[Spread, int]:
    for fanout in range(1, min(nodes - 1, _MOST_FANOUT) + 1):
        spread = Spread(nodes=nodes, fanout=fanout, loss=loss, crash=crash)
        if spread.infected(within)[-1] >= reliability * nodes:
            return spread, spread.rounds_until_delivered(reliability)
    raise ConfigError(
        f"within_rounds: {within} rounds are too few for {nodes} nodes, a loss of {loss:g} and a "
        f"reliability of {reliability:g}, whatever the fanout up to {_MOST_FANOUT}; allow more "
        "rounds or ask for less"
    )


def _view(nodes: int, fanout: int, period_ns: int) -> int:
    """As small as a century without a partition allows, and some entries for each target."""
    century = 100 * _YEAR_S * _SECOND / period_ns
    view = min(nodes - 1, max(fanout, 2))
    while view < nodes - 1 and _rounds_to_split(nodes, view) < century:
        view += 1
    return min(nodes - 1, 1000, max(view, _VIEW_PER_FANOUT * fanout))


def _rounds_to_split(nodes: int, view: int) -> float:
    return rounds_to_partition(nodes, view, _PARTITION_RISK) if view < nodes // 2 else inf
