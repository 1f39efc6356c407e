"""Everything that can be set about pbcast."""

from typing import Literal

from epicast.core import ConfigError
from epicast.deployment import Duration, Size
from epicast.protocols.config import ProtocolConfig, check_bounds
from epicast.protocols.notifications import Purging

_SECOND = 1_000_000_000
_BOUNDS: dict[str, tuple[float, float]] = {
    "fanout": (1, 100),
    "gossip_period_ns": (1_000_000, 3600 * _SECOND),
    "gossip_jitter": (0, 0.9),
    "group": (0, 2**32 - 1),
    "repetitions": (1, 10_000),
    "max_hops": (1, 10_000),
    "max_events": (1, 10_000),
    "max_buffer_bytes": (1000, 1 << 30),
    "long_ago_rounds": (1, 10_000),
    "max_solicited": (1, 10_000),
    "max_sources": (1, 1_000_000),
    "max_gaps": (1, 10_000),
    "max_event_bytes": (1, 1 << 26),
    "max_message_bytes": (600, 1 << 24),
}


class PbcastConfig(ProtocolConfig, frozen=True, kw_only=True):
    """Defaults: "paper" is Eugster et al. 2003, section 8.2; "ours" have the reason given."""

    fanout: int = 5
    """Peers each gossip goes to, 1 to 100. Paper: 5."""
    gossip_period_ns: Duration = _SECOND // 5
    """Between two gossips of a node. Ours: the paper counts in rounds."""
    gossip_jitter: float = 0.1
    """Share of the period by which each may come earlier or later, 0 to 0.9. Ours."""
    aligned_rounds: bool = False
    """All nodes gossip at multiples of the period: the synchronous rounds of simulations."""
    first_phase: Literal["multicast", "none"] = "multicast"
    """Whether events are multicast to the group before they are gossiped."""
    group: int = 1
    """The multicast group, which all nodes join."""
    inline: bool = False
    """Whether gossip carries events instead of their ids, and nothing is solicited."""
    repetitions: int = 4
    """Rounds in which a node gossips an event. Ours: neither paper says what it used; with fewer,
    events die out before all have them."""
    max_hops: int = 10
    """How often an event is passed on in a row. Ours: about twice the rounds it needs."""
    max_events: int = 60
    """Events a node keeps to gossip. Paper: as lpbcast, 60 and 30."""
    max_buffer_bytes: Size = 1 << 20
    """The same in bytes. Ours."""
    purging: Purging = "age"
    """What goes when the buffer is full: any, or what is oldest."""
    long_ago_rounds: int = 10
    """With age-based purging: an event that came so much earlier than the newest of its source goes
    first. Ours."""
    max_solicited: int = 100
    """Events asked for, and sent to one who asks, at a time. Ours."""
    max_sources: int = 1024
    """Publishers remembered for duplicate suppression."""
    max_gaps: int = 32
    """Holes remembered per publisher."""
    max_event_bytes: Size = 1 << 20
    """A larger event is refused."""
    max_message_bytes: Size = 1200
    """Of a gossip and of an answer. A larger event goes over a connection."""

    def __post_init__(self) -> None:
        check_bounds(self, _BOUNDS)
        if self.max_event_bytes > self.max_buffer_bytes:
            raise ConfigError(
                f"max_event_bytes: {self.max_event_bytes} is more than max_buffer_bytes; such an "
                "event would find no room"
            )
