"""Everything that can be set about Cyclon."""

from epicast.core import ConfigError
from epicast.deployment import Duration
from epicast.protocols.config import ProtocolConfig, check_bounds

_SECOND = 1_000_000_000
_BOUNDS: dict[str, tuple[float, float]] = {
    "view_size": (1, 1000),
    "shuffle_length": (1, 100),
    "shuffle_period_ns": (1_000_000, 3600 * _SECOND),
    "shuffle_jitter": (0, 0.9),
    "ping_period_ns": (0, 3600 * _SECOND),
    "max_unanswered_pings": (1, 100),
    "join_walk_length": (0, 64),
    "contact_every": (0, 10_000),
    "max_contacts": (1, 1000),
}


class CyclonConfig(ProtocolConfig, frozen=True, kw_only=True):
    """Defaults: "paper" is Voulgaris, Gavidia and van Steen 2005, "ours" have the reason given."""

    view_size: int = 20
    """Neighbours of a node (c), 1 to 1000. Paper: its experiments use 20 to 100."""
    shuffle_length: int = 8
    """Entries exchanged at a time (l), 1 to `view_size`. Paper: 8; they fit one datagram."""
    shuffle_period_ns: Duration = 10 * _SECOND
    """Between two shuffles of a node, 1 ms to 1 h. Ours: the paper counts in cycles."""
    shuffle_jitter: float = 0.1
    """Share of the period by which each one may come earlier or later, 0 to 0.9. Ours: nodes that
    started together do not go on in step."""
    ping_period_ns: Duration = 0
    """Between two looks whether all neighbours are there, up to 1 h; 0: never, as in the paper.
    Ours: no shorter than an answer takes, or live neighbours are passed over."""
    max_unanswered_pings: int = 3
    """A neighbour that left so many in a row without an answer is thrown out, 1 to 100. Ours: of
    neighbours that are there, one in a thousand looks so where a tenth of all datagrams is lost."""
    join_walk_length: int = 5
    """Hops of the walks that introduce a joiner, 0 to 64. Paper: the overlay's mean path length;
    with 20 neighbours five hops reach a million nodes."""
    contact_every: int = 20
    """Every so many shuffles one goes to a contact given at the start, 0 (never) to 10,000. Ours:
    see the package's docstring."""
    max_contacts: int = 16
    """Contacts remembered to join through, 1 to 1000. Ours."""

    def __post_init__(self) -> None:
        check_bounds(self, _BOUNDS)
        if self.shuffle_length > self.view_size:
            raise ConfigError(
                f"shuffle_length: {self.shuffle_length} is more than the view_size of "
                f"{self.view_size}; a node cannot give away more than it has"
            )
