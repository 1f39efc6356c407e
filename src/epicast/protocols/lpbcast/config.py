"""Everything that can be set about lpbcast."""

from typing import Literal

from epicast.core import ConfigError
from epicast.deployment import Duration, Size
from epicast.protocols.config import ProtocolConfig, check_bounds
from epicast.protocols.notifications import Purging

_SECOND = 1_000_000_000
BOUNDS: dict[str, tuple[float, float]] = {
    "fanout": (1, 100),
    "gossip_period_ns": (1_000_000, 3600 * _SECOND),
    "gossip_jitter": (0, 0.9),
    "view_size": (1, 1000),
    "max_subs": (1, 1000),
    "max_unsubs": (1, 1000),
    "unsubscription_rounds": (1, 10_000),
    "frequency_threshold": (0.01, 1),
    "membership_every": (1, 1000),
    "membership_extra": (0, 100),
    "contact_every": (0, 10_000),
    "max_contacts": (1, 1000),
    "resubscribe_rounds": (1, 1000),
    "max_welcomes": (0, 1000),
    "max_events": (1, 10_000),
    "max_buffer_bytes": (1000, 1 << 30),
    "long_ago_rounds": (1, 10_000),
    "max_age_rounds": (0, 10_000),
    "retrieve_after_rounds": (0, 1000),
    "max_retrievals": (1, 10_000),
    "max_stored_events": (0, 1_000_000),
    "max_stored_bytes": (1000, 1 << 32),
    "max_sources": (1, 1_000_000),
    "max_gaps": (1, 10_000),
    "late_events": (0, 10_000),
    "settling_rounds": (0, 1000),
    "max_event_bytes": (1, 1 << 26),
    "max_message_bytes": (600, 1 << 24),
    "max_datagrams": (1, 64),
    "bytes_per_s": (0, 1 << 40),
    "critical_age_rounds": (1, 1000),
    "max_waiting": (1, 1_000_000),
}


class LpbcastConfig(ProtocolConfig, frozen=True, kw_only=True):
    """Defaults: "paper" is Eugster et al. 2003, "ours" have the reason given.

    `epicast plan gossip` recommends values for a number of nodes, a loss and a rate.
    """

    fanout: int = 3
    """Peers each gossip goes to (F), 1 to 100, at most `view_size`. Paper: 3."""
    gossip_period_ns: Duration = _SECOND // 5
    """Between two gossips of a node (T), 1 ms to 1 h. Ours: the paper counts in rounds."""
    gossip_jitter: float = 0.1
    """Share of the period by which each may come earlier or later, 0 to 0.9. Ours: nodes that
    started together do not go on in step."""
    aligned_rounds: bool = False
    """All nodes gossip at multiples of the period, without jitter: the synchronous rounds of the
    paper's simulations."""

    # Membership

    view_size: int = 20
    """Neighbours of a node (l), 1 to 1000. Paper: 15 to 35 for 125 processes."""
    max_subs: int = 10
    """Subscriptions a gossip passes on, |subs|m, the node's own not counted. Ours: with the fanout,
    more than the view: views are uniform if l is small against |subs|m F."""
    max_unsubs: int = 10
    """Unsubscriptions a gossip passes on, |unSubs|m."""
    unsubscription_rounds: int = 20
    """How long an unsubscription stays in circulation. Ours: several times what it needs to reach
    everybody."""
    membership: Literal["random", "frequency"] = "frequency"
    """Which neighbours and subscriptions are purged: any, or those heard of often (section 7)."""
    frequency_threshold: float = 1.0
    """Share of the mean frequency that makes a process one heard of often (k), above 0 to 1. Ours:
    the paper gives none, and at half the mean nearly everybody qualifies."""
    membership_every: int = 1
    """Every how many rounds a gossip carries subscriptions, 1 to 1000."""
    membership_extra: int = 0
    """Gossips of subscriptions alone between two rounds, 0 to 100 (section 8.1)."""
    contact_every: int = 50
    """Every so many rounds a gossip goes to one of the privileged contacts given at the start, 0
    (never) to 10,000. Ours: often enough to mend a partition, seldom enough for the contact."""
    max_contacts: int = 16
    """Privileged contacts remembered, 1 to 1000."""
    resubscribe_rounds: int = 5
    """Rounds without any gossip after which the node subscribes again."""
    max_welcomes: int = 16
    """Newcomers per round that are told of others at once, and others of them; those beyond, and
    all if it is 0, are passed on with the next gossip, as in the paper. 0 to 1000. Ours."""

    # Events

    max_events: int = 60
    """Events a node still passes on, |events|m. Paper: 60 and 30."""
    max_buffer_bytes: Size = 1 << 20
    """The same in bytes. Ours."""
    purging: Purging = "age"
    """What goes when the buffer is full: any, or what is oldest (section 6)."""
    long_ago_rounds: int = 10
    """An event that came so much earlier than the newest of its source goes first (LONG_AGO). Ours:
    the paper gives none."""
    max_age_rounds: int = 20
    """Rounds after which an event is passed on no more, 0: it is while there is room. Ours: without
    it, what was published last is repeated for ever."""

    # Retrieval

    retrieval: bool = True
    """Whether gossip carries digests, and what is missing is asked for."""
    retrieve_after_rounds: int = 2
    """Rounds to wait for an event that was named by somebody before it is asked for (k). Ours."""
    max_retrievals: int = 100
    """Missing events looked after at a time, |retrieveBuf|m."""
    max_stored_events: int = 500
    """Events kept to answer requests, 0: none."""
    max_stored_bytes: Size = 4 << 20
    max_sources: int = 1024
    """Publishers remembered for duplicate suppression and in digests."""
    max_gaps: int = 32
    """Holes remembered per publisher."""
    late_events: int = 500
    """How many events before the first one heard of a publisher are still asked for. Ours: as many
    as others keep to answer with; a publisher may begin with a large batch."""
    settling_rounds: int = 10
    """Rounds after its start in which a node learns from digests what was before its time. Ours."""

    # Limits

    max_event_bytes: Size = 1 << 20
    """A larger event is refused."""
    max_message_bytes: Size = 1200
    """Of a gossip; 600 to 16 MiB. Ours: inside an MTU of 1400 with headers. A larger event is
    announced by its id and fetched over a connection."""
    max_datagrams: int = 4
    """Gossips per round and peer, if events do not fit one."""
    bytes_per_s: Size = 0
    """What a node sends at most in any second, 0: no limit."""
    adaptive: bool = True
    """Whether publishers are slowed down when events are purged too young."""
    critical_age_rounds: int = 6
    """The age at which an event may be purged: by then it has reached nearly everybody. See
    `epicast plan gossip`."""
    max_waiting: int = 1024
    """Published events that wait for the node to take them up; at this many it has no room."""

    def __post_init__(self) -> None:
        check_bounds(self, BOUNDS)
        if self.fanout > self.view_size:
            raise ConfigError(
                f"fanout: {self.fanout} is more than the view_size of {self.view_size}; a node "
                "cannot gossip to more peers than it knows"
            )
        if self.max_event_bytes > min(self.max_buffer_bytes, self.max_stored_bytes):
            raise ConfigError(
                f"max_event_bytes: {self.max_event_bytes} is more than max_buffer_bytes or "
                "max_stored_bytes; such an event would find no room"
            )
