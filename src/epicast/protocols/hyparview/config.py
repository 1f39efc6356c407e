"""Everything that can be set about HyParView."""

from math import ceil

from epicast.core import ConfigError
from epicast.deployment import Duration
from epicast.protocols.config import ProtocolConfig, check_bounds

_SECOND = 1_000_000_000
_HOUR = 3600 * _SECOND
_BOUNDS: dict[str, tuple[float, float]] = {
    "active_view": (2, 1000),
    "expansion_factor": (1, 10),
    "passive_view": (1, 10_000),
    "active_walk_length": (1, 64),
    "passive_walk_length": (0, 64),
    "shuffle_period_ns": (1_000_000, _HOUR),
    "shuffle_active": (0, 100),
    "shuffle_passive": (0, 100),
    "shuffle_walk_length": (1, 64),
    "keep_alive_period_ns": (0, _HOUR),
    "keep_alive_silent_periods": (1, 1000),
    "attempt_timeout_ns": (1_000_000, _HOUR),
    "promotion_attempts": (1, 1000),
    "repair_period_ns": (1_000_000, _HOUR),
    "rejoin_backoff_ns": (1_000_000, _HOUR),
    "rejoin_backoff_max_ns": (1_000_000, _HOUR),
    "max_contacts": (1, 1000),
    "lost_memory": (0, 100),
    "reconnect_period_ns": (1_000_000, _HOUR),
    "reconnect_attempts": (1, 100_000),
}


class HyParViewConfig(ProtocolConfig, frozen=True, kw_only=True):
    """Defaults: "paper" is Leitão, Pereira and Rodrigues 2007 (its evaluation), "Brisa"
    is section 4.2.1 of Matos's dissertation, "ours" have the reason given."""

    active_view: int = 5
    """Target number of neighbours, 2 to 1000. Paper: fanout 4 plus one."""
    expansion_factor: float = 2.0
    """The active view may grow to this times its target before anyone is evicted, 1 to 10.
    Brisa: 2. With 1 it is the plain HyParView."""
    passive_view: int = 30
    """Peers kept in reserve, 1 to 10,000. Paper: 30."""
    active_walk_length: int = 6
    """Hops (ARWL) after which a join walk ends in an active view, 1 to 64. Paper: 6."""
    passive_walk_length: int = 3
    """Hops left (PRWL) where a join walk leaves the joiner in a passive view, 0 to
    `active_walk_length`. Paper: 3."""
    shuffle_period_ns: Duration = 10 * _SECOND
    """Between two shuffles, 1 ms to 1 h. Ours: the paper counts in rounds; the reserve is renewed
    in a minute or so."""
    shuffle_active: int = 3
    """Neighbours put into a shuffle (k_a), 0 to 100. Paper: 3."""
    shuffle_passive: int = 4
    """Passive peers put into a shuffle (k_p), 0 to 100. Paper: 4."""
    shuffle_walk_length: int = 6
    """Hops after which a shuffle is answered, 1 to 64. Ours: as far as joins walk."""
    keep_alive_period_ns: Duration = _SECOND
    """Between two keep-alives to each neighbour, up to 1 h; 0 sends none. Ours."""
    keep_alive_silent_periods: int = 3
    """Keep-alives in a row without an answer that make a neighbour count as failed, 1 to 1000.
    Ours."""
    attempt_timeout_ns: Duration = 3 * _SECOND
    """For a peer to answer that we asked to be our neighbour, 1 ms to 1 h. Ours: ten slow round
    trips."""
    promotion_attempts: int = 5
    """Refusals taken before asking others waits for the next repair, 1 to 1000. Ours: the paper
    asks the whole passive view, which in an overlay full of neighbours is a burst for nothing."""
    repair_period_ns: Duration = 5 * _SECOND
    """Until a node with too few neighbours tries again, 1 ms to 1 h. Ours."""
    rejoin_backoff_ns: Duration = _SECOND
    """Until a node without any neighbour tries again; doubled each time, 1 ms to 1 h. Ours."""
    rejoin_backoff_max_ns: Duration = 60 * _SECOND
    """Where the doubling stops, `rejoin_backoff_ns` to 1 h. Ours."""
    max_contacts: int = 16
    """Contacts remembered to join through, 1 to 1000. Ours."""
    lost_memory: int = 4
    """Failed neighbours remembered to be asked again, 0 to 100; 0 switches it off. Ours: enough
    that some node of each side of a partition remembers the other, whoever fails meanwhile."""
    reconnect_period_ns: Duration = 30 * _SECOND
    """Between two attempts to find a failed neighbour again, 1 ms to 1 h. Ours."""
    reconnect_attempts: int = 120
    """Attempts before a failed neighbour is forgotten, 1 to 100,000. Ours: an hour of them."""

    def __post_init__(self) -> None:
        check_bounds(self, _BOUNDS)
        if self.passive_walk_length > self.active_walk_length:
            raise ConfigError(
                f"passive_walk_length: {self.passive_walk_length} is more than the "
                f"active_walk_length of {self.active_walk_length}, so it would never be reached"
            )
        if self.rejoin_backoff_max_ns < self.rejoin_backoff_ns:
            raise ConfigError(
                f"rejoin_backoff_max_ns: {self.rejoin_backoff_max_ns} is less than the "
                f"rejoin_backoff_ns of {self.rejoin_backoff_ns}"
            )

    @property
    def max_active_view(self) -> int:
        return int(self.active_view * self.expansion_factor)

    @property
    def join_links(self) -> int:
        """Neighbours a joiner is given, its contact included: see the package's docstring."""
        return ceil(self.active_view / self.expansion_factor)

    @property
    def urgent_below(self) -> int:
        """With fewer neighbours than this a node asks with high priority. 1 without expansion, as
        in the paper: what may not be refused would evict somebody, who then asks next."""
        return max(1, self.active_view - self.join_links)

    @property
    def max_exchange(self) -> int:
        """Peers in one message."""
        return 1 + self.shuffle_active + self.shuffle_passive
