"""Which settings a gossip topic needs, and what they buy: the analysis, read backwards."""

from __future__ import annotations

from math import ceil, inf, isfinite

from msgspec import Struct

from epicast.core import ConfigError
from epicast.protocols.budget import connection_cost
from epicast.protocols.lpbcast.analysis import MAX_NODES, Spread, rounds_to_partition
from epicast.protocols.lpbcast.config import BOUNDS, LpbcastConfig
from epicast.protocols.lpbcast.messages import (
    ANNOUNCEMENT_BYTES,
    GOSSIP_BYTES,
    digest_bytes,
    notification_bytes,
)
from epicast.wire import DATAGRAM_HEADER_BYTES

_SECOND = 1_000_000_000
_YEAR_S = 365 * 24 * 3600
_MOST_FANOUT = 30
_VIEW_PER_FANOUT = 4
"""Entries of the view per target of a round: some are dead, and what was chosen last is still in
the minds of its neighbours. Four are also enough for a century without a partition, at any size and
period."""
_PARTITION_RISK = 1e-3
_BATCH_BYTES = 64
"""Of a batch with one event, besides the event."""
_SUBSCRIPTION_BYTES = 45
_NEED_LESS = "a shorter period, fewer rounds to get there in and fewer or smaller events need less"


class Plan(Struct, frozen=True, kw_only=True):
    """Settings, and what the analysis says of them."""

    nodes: int
    loss: float
    crash: float
    reliability: float
    """That was asked for: of a given process getting a given event, before any retrieval."""
    announced: bool
    """Whether events are too large for gossip: it tells of them, and they are fetched a round
    later, so that they take twice as many rounds."""
    fanout: int
    view_size: int
    max_subs: int
    max_events: int
    max_buffer_bytes: int
    max_stored_events: int
    max_stored_bytes: int
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
    """Sent by a node: gossip at the most; events that are fetched once each, which is the mean."""
    memory_bytes: int
    """Of a node's buffers, at the most."""

    def config(self, gossip_period_ns: int) -> LpbcastConfig:
        return LpbcastConfig(
            gossip_period_ns=gossip_period_ns,
            fanout=self.fanout,
            view_size=self.view_size,
            max_subs=self.max_subs,
            max_events=self.max_events,
            max_buffer_bytes=self.max_buffer_bytes,
            max_stored_events=self.max_stored_events,
            max_stored_bytes=self.max_stored_bytes,
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
    `batch_events` are published together: they share what a batch costs. `ConfigError` says what no
    settings can do."""
    config = LpbcastConfig()
    _check(nodes, reliability, events_per_s, event_bytes, batch_events, period_ns, within_rounds)
    room = config.max_message_bytes - GOSSIP_BYTES - notification_bytes(_BATCH_BYTES)
    announced = event_bytes > room
    steps = 2 if announced else 1  # rounds that an event needs from one node to the next
    spread, hops = _least_fanout(nodes, loss, crash, reliability, within_rounds, steps)
    fanout, rounds = spread.fanout, hops * steps
    view = min(nodes - 1, _VIEW_PER_FANOUT * fanout)
    subs = min(_most("max_subs"), max(4, ceil(3 * view / fanout)))
    # A batch that does not fit a datagram is cut, and each part costs as much as a whole one.
    together = max(1, min(batch_events, room // max(1, event_bytes)))
    held = notification_bytes(_BATCH_BYTES) / together + event_bytes
    max_events = _buffered(events_per_s * period_ns / _SECOND * rounds, events_per_s, rounds)
    buffer_bytes = max(config.max_buffer_bytes, ceil(max_events * held))
    if buffer_bytes > _most("max_buffer_bytes"):
        raise ConfigError(
            f"event_bytes: {max_events:,} events of {event_bytes:,} bytes live at a time, which is "
            f"more than a max_buffer_bytes of {_most('max_buffer_bytes'):,}; {_NEED_LESS}"
        )
    inline = ANNOUNCEMENT_BYTES if announced else held
    membership = GOSSIP_BYTES + (subs + 1) * _SUBSCRIPTION_BYTES + 10 * digest_bytes(1)
    datagrams = max(1, ceil((membership + max_events * inline) / config.max_message_bytes))
    if datagrams > _most("max_datagrams"):
        raise ConfigError(
            f"events_per_s: the {max_events:,} events that live at a time are {datagrams:,} "
            f"datagrams, and a round's gossip is at most {_most('max_datagrams')}; {_NEED_LESS}, "
            "and so do events published in larger batches"
        )
    sent = membership + max_events * inline + datagrams * DATAGRAM_HEADER_BYTES
    fetched = events_per_s * connection_cost(ceil(held)) if announced else 0
    yearly = _YEAR_S * _SECOND / period_ns
    # What is announced must be there for those who fetch it.
    stored_events = max(config.max_stored_events, max_events)
    stored_bytes = max(config.max_stored_bytes, buffer_bytes)
    event_memory = event_bytes + ceil(400 / together)
    return Plan(
        nodes=nodes,
        loss=loss,
        crash=crash,
        reliability=reliability,
        announced=announced,
        fanout=fanout,
        view_size=view,
        max_subs=subs,
        max_events=max_events,
        max_buffer_bytes=buffer_bytes,
        max_stored_events=stored_events,
        max_stored_bytes=stored_bytes,
        max_age_rounds=2 * rounds,
        critical_age_rounds=rounds,
        max_datagrams=datagrams,
        rounds=rounds,
        rounds_to_99=round(spread.rounds_to(0.99) * steps, 2),
        latency_ms=rounds * period_ns / 1e6,
        reached=min(1.0, spread.infected(hops)[-1] / nodes),
        years_to_partition=_rounds_to_split(nodes, view) / yearly,
        bytes_per_s=ceil(sent * fanout * _SECOND / period_ns + fetched),
        memory_bytes=(view + subs) * 300
        + max_events * event_memory
        + min(stored_events * event_memory, stored_bytes),
    )


def _check(
    nodes: int, reliability: float, events_per_s: float, event_bytes: int, batch_events: int,
    period_ns: int, within_rounds: int,
) -> None:  # fmt: skip
    if not 2 <= nodes <= MAX_NODES:
        raise ConfigError(f"nodes: {nodes} is not between 2 and {MAX_NODES:,}")
    if not 0 < reliability < 1:
        raise ConfigError(f"reliability: {reliability} is not between 0 and 1, as 0.99 is")
    if not (isfinite(events_per_s) and events_per_s >= 0):
        raise ConfigError(f"events_per_s: {events_per_s:g} is not a number that is 0 or more")
    largest = LpbcastConfig().max_event_bytes
    if not 0 <= event_bytes <= largest:
        raise ConfigError(
            f"event_bytes: {event_bytes:,} is not between 0 and {largest:,}, which is the default "
            "of max_event_bytes; publish parts, or where the data is"
        )
    if batch_events < 1:
        raise ConfigError(f"batch_events: {batch_events} is not at least 1")
    low, high = BOUNDS["gossip_period_ns"]
    if not low <= period_ns <= high:
        raise ConfigError(f"period: {period_ns / 1e9:g} s is not between 1 ms and 1 h")
    if not 1 <= within_rounds <= _most("critical_age_rounds"):
        raise ConfigError(
            f"within_rounds: {within_rounds} is not between 1 and {_most('critical_age_rounds')}"
        )


def _most(setting: str) -> int:
    return int(BOUNDS[setting][1])


def _buffered(living: float, events_per_s: float, rounds: int) -> int:
    """For how many events there must be room if so many live at a time."""
    if living > _most("max_events"):
        raise ConfigError(
            f"events_per_s: with {events_per_s:g} a second, {living:,.0f} events live at a time "
            f"({rounds} rounds each), and max_events is at most {_most('max_events'):,}; "
            f"{_NEED_LESS}"
        )
    return max(10, ceil(living))


def _least_fanout(
    nodes: int, loss: float, crash: float, reliability: float, within: int, steps: int
) -> tuple[Spread, int]:
    """And how often an event is passed on until it is there, which takes `steps` rounds each."""
    for fanout in range(1, min(nodes - 1, _MOST_FANOUT) + 1):
        spread = Spread(nodes=nodes, fanout=fanout, loss=loss, crash=crash)
        if within >= steps and spread.infected(within // steps)[-1] >= reliability * nodes:
            return spread, max(1, spread.rounds_until_delivered(reliability))
    fetched = ", and events that are fetched, which takes a round more each time" * (steps > 1)
    raise ConfigError(
        f"within_rounds: {within} rounds are too few for {nodes} nodes, a loss of {loss:g} and a "
        f"reliability of {reliability:g}{fetched}, whatever the fanout up to {_MOST_FANOUT}; allow "
        "more rounds or ask for less"
    )


def _rounds_to_split(nodes: int, view: int) -> float:
    return rounds_to_partition(nodes, view, _PARTITION_RISK) if view < nodes // 2 else inf
