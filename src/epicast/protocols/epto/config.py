"""Everything that can be set about EpTO."""

from typing import Literal

from epicast.core import ConfigError
from epicast.deployment import Duration, Size
from epicast.protocols.config import ProtocolConfig, check_bounds

_MILLISECOND = 1_000_000
_SECOND = 1000 * _MILLISECOND
AUTOMATIC = -1
_BOUNDS: dict[str, tuple[float, float]] = {
    "round_period_ns": (_MILLISECOND, 3600 * _SECOND),
    "min_round_ns": (_MILLISECOND, 3600 * _SECOND),
    "max_round_ns": (_MILLISECOND, 3600 * _SECOND),
    "round_jitter": (0, 100),
    "system_size": (0, 1 << 32),
    "size_epoch_rounds": (4, 10_000),
    "fanout": (0, 1000),
    "ttl": (0, 60),
    "max_clock_ahead_ns": (_MILLISECOND, 24 * 3600 * _SECOND),
    "extra_rounds": (AUTOMATIC, 1000),
    "settling_rounds": (AUTOMATIC, 10_000),
    "idle_fanout": (0, 100),
    "max_entries": (16, 1 << 24),
    "max_buffer_bytes": (1000, 1 << 32),
    "max_event_bytes": (1, 1 << 26),
    "max_sources": (16, 1 << 24),
    "max_datagram_bytes": (0, 1 << 30),
    "max_datagrams": (1, 64),
    "max_ball_bytes": (1000, 1 << 26),
    "view_size": (1, 1000),
    "shuffle_length": (1, 100),
    "shuffle_period_ns": (0, 3600 * _SECOND),
    "ping_period_ns": (0, 3600 * _SECOND),
}


class EptoConfig(ProtocolConfig, frozen=True, kw_only=True):
    """Defaults: "paper" is chapter 5 of Matos's dissertation, "ours" have the reason given.

    All nodes of a topic must have the same `clock`; the rest should be the same.
    """

    clock: Literal["global", "logical"] = "global"
    """Whether events are ordered by the clocks of the machines, which must be set (see
    `max_clock_ahead_ns`), or by counters, which takes twice as long."""
    round_period_ns: Duration = 100 * _MILLISECOND
    """Between two rounds of a node (δ), 1 ms to 1 h; with `adaptive_period`, before latencies are
    known. Paper: the median latency, 125."""
    adaptive_period: bool = True
    """Whether the period follows the latencies that nodes measure. If not, it is taken to be about
    as long as a message takes, as in the paper: if it is much longer, events are missed."""
    min_round_ns: Duration = 50 * _MILLISECOND
    """The shortest period it is adapted to. Ours: rounds cost work, whatever the latency."""
    max_round_ns: Duration = 5 * _SECOND
    """The longest."""
    round_jitter: float = 0.1
    """Share of the period by which each may come earlier or later (processDrift), 0 to 100; a round
    that would lie in the past comes at once. Paper: 0.1."""

    # Spreading

    system_size: int = 0
    """Processes in the system (n), 0: it is estimated."""
    size_epoch_rounds: int = 30
    """Rounds in which the size is estimated anew. Ours: several times what gossip needs."""
    fanout: int = 0
    """Peers each ball goes to (K), 0: from the size, 2 e ln n / ln ln n."""
    ttl: int = 0
    """Rounds in which an event is passed on (TTL), 0: from the size, lg n."""
    idle_fanout: int = 3
    """Peers told in each round that there is nothing new; 0: none. Ours: clocks, sizes and
    latencies are gossiped while nobody publishes."""

    # The order

    max_clock_ahead_ns: Duration = 10 * _SECOND
    """Events from further in the future are refused, and a node that is off from the middle of the
    others by more than that follows them. Ours. With `clock = "global"` clocks are assumed to be
    within this of each other; order holds whatever they do, holes appear when they differ by more
    than the time an event takes to be delivered."""
    extra_rounds: int = AUTOMATIC
    """Rounds of its own that a node waits beyond those of the paper before it delivers; -1: one
    with a global clock, none with a logical one, which waits for twice the rounds anyway."""
    settling_rounds: int = AUTOMATIC
    """Rounds in which a node that joins listens before its order begins; -1: TTL and two more."""

    # Limits

    max_entries: int = 1 << 17
    """Publications held, waiting to be delivered or passed on. Ours."""
    max_buffer_bytes: Size = 64 << 20
    """The same in bytes."""
    max_event_bytes: Size = 1 << 20
    """A larger event is refused."""
    max_sources: int = 1 << 16
    """Publishers whose last number is remembered, by which holes are found."""
    max_datagram_bytes: Size = 1000
    """Of a ball sent as a datagram. Ours: inside an MTU of 1400 with headers and what else a node
    says, of which the estimate of the size has 256 bytes."""
    max_datagrams: int = 4
    """A ball that needs more than so many is sent over connections."""
    max_ball_bytes: Size = 4 << 20
    """A larger one is sent in parts."""

    # Membership, by Cyclon

    view_size: int = 30
    """Neighbours to sample from, 1 to 1000. Ours: K is 29 for a million processes."""
    shuffle_length: int = 10
    """Neighbours exchanged at a time."""
    shuffle_period_ns: Duration = 0
    """Between two exchanges, 1 ms to 1 h; 0: a round, or as long as an answer takes if that is
    longer (three latencies), since one that comes after the next exchange is lost. Ours: in each
    round a node sends to other peers, as in the paper, where all are known to all; docs/ordered.md
    has the cost."""
    ping_period_ns: Duration = _SECOND
    """Between two looks whether neighbours are there; 0: never. Ours: half the balls were lost on
    neighbours that are gone (docs/decisions/0021), and each look costs a datagram or two of 50
    bytes per neighbour."""

    def __post_init__(self) -> None:
        check_bounds(self, _BOUNDS)
        if self.min_round_ns > self.max_round_ns:
            raise ConfigError(
                f"min_round_ns: {self.min_round_ns} is more than max_round_ns, {self.max_round_ns}"
            )
        if 0 < self.shuffle_period_ns < _MILLISECOND:
            raise ConfigError(
                f"shuffle_period_ns: {self.shuffle_period_ns} is less than a millisecond; give "
                "more, or 0 for once per round"
            )
        if self.shuffle_length > self.view_size:
            raise ConfigError(
                f"shuffle_length: {self.shuffle_length} is more than the view_size of "
                f"{self.view_size}; a node cannot give away more than it has"
            )
        if 4 * self.max_event_bytes > self.max_buffer_bytes:
            raise ConfigError(
                f"max_event_bytes: {self.max_event_bytes} is more than a quarter of "
                f"max_buffer_bytes, {self.max_buffer_bytes}; such events would find no room"
            )
