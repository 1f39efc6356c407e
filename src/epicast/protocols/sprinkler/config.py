"""Everything that can be set about Sprinkler."""

from __future__ import annotations

from typing import Protocol as Interface

from epicast.core import ConfigError
from epicast.deployment import Duration, Size
from epicast.protocols.config import ProtocolConfig

_MILLISECOND = 1_000_000
_SECOND = 1_000_000_000


class RegionConfig(Interface):
    """What proxies and agents need to take part in a region (RLP)."""

    @property
    def view_size(self) -> int: ...
    @property
    def fanout(self) -> int: ...
    @property
    def shuffle_time_ns(self) -> int: ...
    @property
    def ride_bytes(self) -> int: ...


class EdgeConfig(ProtocolConfig, frozen=True, kw_only=True):
    """What agents and plain clients have in common."""

    reconnect_every_ns: Duration = 500 * _MILLISECOND
    """Between attempts to reach the proxy; with up to half as much added at random."""
    attach_within_ns: Duration = 3 * _SECOND
    """For an attempt to reach the proxy, until it has said welcome; then the next one is tried."""
    silence: int = 3
    """Heartbeats that may be missed before the proxy counts as lost: with the proxy's heartbeat
    period this is the bound on how long a node can be deaf without knowing."""
    max_unacknowledged_events: int = 1 << 20
    """Events published and not acknowledged yet; more have to wait."""
    max_unacknowledged_bytes: Size = 64 << 20
    retry_every_ns: Duration = 200 * _MILLISECOND
    """After the owner had no room, or could not be reached."""
    acknowledge_within_ns: Duration = 5 * _SECOND
    """After which a publication that nobody answered is sent again."""
    max_subscriptions: int = 4096

    def check_edge(self) -> None:
        at_least(
            self, 1, "reconnect_every_ns", "attach_within_ns", "silence",
            "max_unacknowledged_events", "max_unacknowledged_bytes", "retry_every_ns",
            "acknowledge_within_ns", "max_subscriptions",
        )  # fmt: skip


class ClientConfig(EdgeConfig, frozen=True, kw_only=True):
    def __post_init__(self) -> None:
        self.check_edge()


class AgentConfig(EdgeConfig, frozen=True, kw_only=True):
    view_size: int = 20
    """V: neighbours a node knows. The paper: 10 to 20, growing with the logarithm of the region."""
    fanout: int = 4
    """F: neighbours told about progress. The paper's best value."""
    shuffle_time_ns: Duration = 1 * _SECOND
    """How long the same neighbours are told. The paper simulates 30 ms; on a network a change of
    neighbours costs connections."""
    gossip_every_ns: Duration = 1 * _SECOND
    """Between exchanges of views. Ours: the paper says frequently."""
    ride_bytes: Size = 1024
    """New events up to this size travel inside NOTIFY."""
    answer_bytes: Size = 2 << 20
    """The most one answer to a request carries; the requester asks again for the rest."""

    proxy_gossip: int = 10
    """Every so many exchanges of views are with the proxy, whether it is in the view or not, so
    that parts of the region that lost each other meet again. 0: never."""
    request_timeout_ns: Duration = 300 * _MILLISECOND
    """After which what a neighbour was asked for is asked of the proxy."""
    buffer_bytes: Size = 4 << 20
    """Newest events kept per stream, for neighbours and for slow subscriptions."""
    early_bytes: Size = 4 << 20
    """Events kept per stream that came before what precedes them."""
    max_window_bytes: Size = 64 << 20
    """The most a client of a sidecar may ask for."""
    follow_all: bool = False
    """Follow every stream there is, subscribed to or not: what a sidecar does."""
    alarm_after_ns: Duration = 5 * _SECOND
    """How long a sidecar's proxy may not be heard of, or a stream stand still while the proxy has
    more of it, before that is an alarm."""

    def __post_init__(self) -> None:
        self.check_edge()
        check_region(self)
        at_least(self, 0, "proxy_gossip")
        at_least(
            self, 1, "request_timeout_ns", "buffer_bytes", "early_bytes", "max_window_bytes",
            "alarm_after_ns",
        )  # fmt: skip


class ProxyConfig(ProtocolConfig, frozen=True, kw_only=True):
    view_size: int = 20
    fanout: int = 4
    shuffle_time_ns: Duration = 1 * _SECOND
    gossip_every_ns: Duration = 1 * _SECOND
    ride_bytes: Size = 1024
    answer_bytes: Size = 2 << 20
    """These six as for agents, of which the proxy is one."""
    advertise_every_ns: Duration = 100 * _MILLISECOND
    """Between advertisements to other proxies. Ours: the paper says periodically."""
    hysteresis: float = 100.0
    """C, in events times seconds: a proxy switches to another source of a stream if that is ahead
    by more than C divided by the seconds since the present source gave a sign of life. Ours: the
    paper gives no value."""
    silence: int = 5
    """Advertisements that may fail to come before a source counts as lost, and answers in which the
    owner must be ahead before it is returned to."""
    reconnect_every_ns: Duration = 500 * _MILLISECOND
    """Between attempts to reach another proxy."""
    heartbeat_every_ns: Duration = 500 * _MILLISECOND
    """How often those attached ask how far the streams are."""
    chunk_bytes: Size = 256 << 10
    """The most that goes to a subscriber in one message."""
    window_bytes: Size = 8 << 20
    """How much another proxy sends ahead of what was taken here."""
    max_window_bytes: Size = 64 << 20
    """The most a subscriber may ask for."""
    recent_bytes: Size = 6 << 20
    """Newest events per stream kept at hand, so that history need not be read for them."""
    read_retry_ns: Duration = 200 * _MILLISECOND
    """After history could not be read."""
    max_subscriptions: int = 100_000
    max_publishers: int = 1 << 16
    """Publishers per stream whose last number is remembered, and routes of relayed publications."""
    max_unstable_bytes: Size = 48 << 20
    """Published and not stored yet, per stream; more is refused as busy."""
    max_hops: int = 8
    """Nodes a publication may have passed before it is relayed from here."""
    beat_every_ns: Duration = 100 * _MILLISECOND
    """In a chain: how often a replica tells the others that it is there."""
    suspect_after_ns: Duration = 600 * _MILLISECOND
    """In a chain: how long a neighbour may be silent before the chain goes on without it."""
    broken_after_ns: Duration = 150 * _MILLISECOND
    """The same where the connection to it is broken: its process may have ended."""
    resume_after_ns: Duration = 3 * _SECOND
    """In a chain: how long replicas that were all started again wait for one that was not."""
    handover_within_ns: Duration = 2 * _SECOND
    """How long an owner that has stopped waits for the region that a stream is handed to; in a
    chain: the tail for a newcomer that has nearly caught up."""
    alarm_after_ns: Duration = 5 * _SECOND
    """How long a region may not be heard of, or a stream stand still while another region has more
    of it, before that is an alarm."""

    def __post_init__(self) -> None:
        check_region(self)
        at_least(
            self, 1, "advertise_every_ns", "silence", "reconnect_every_ns", "heartbeat_every_ns",
            "chunk_bytes", "window_bytes", "max_window_bytes", "read_retry_ns",
            "max_subscriptions", "max_publishers", "max_unstable_bytes", "max_hops",
            "beat_every_ns", "suspect_after_ns", "broken_after_ns", "resume_after_ns",
            "handover_within_ns",
            "alarm_after_ns",
        )  # fmt: skip
        at_least(self, 0, "hysteresis", "recent_bytes")


def check_region(config: AgentConfig | ProxyConfig) -> None:
    if not 1 <= config.fanout <= config.view_size <= 1000:
        raise ConfigError(
            f"fanout {config.fanout}, view_size {config.view_size}: 1 <= fanout <= view_size <= "
            "1000 is needed"
        )
    at_least(config, 1, "gossip_every_ns", "answer_bytes")
    at_least(config, 0, "shuffle_time_ns", "ride_bytes")


def at_least(config: ProtocolConfig, least: int, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value < least:
            raise ConfigError(f"{name}: {value} is not at least {least}")
