"""Everything that can be set about Scamp."""

from epicast.deployment import Duration
from epicast.protocols.config import ProtocolConfig, check_bounds

_SECOND = 1_000_000_000
_BOUNDS: dict[str, tuple[float, float]] = {
    "extra_copies": (0, 100),
    "max_view": (1, 10_000),
    "max_forwards": (1, 1000),
    "walk_length": (0, 64),
    "lease_ns": (1_000_000, 24 * 3600 * _SECOND),
    "heartbeat_period_ns": (1_000_000, 3600 * _SECOND),
    "isolated_after": (1, 1000),
    "contact_every": (0, 10_000),
    "max_contacts": (1, 1000),
}


class ScampConfig(ProtocolConfig, frozen=True, kw_only=True):
    """Defaults: "paper" is Ganesh et al. 2003, "ours" have the reason given."""

    extra_copies: int = 2
    """Copies of a subscription beside one per neighbour (c), 0 to 100. Paper: the failures that are
    to be borne; its experiments use 0 to 5."""
    max_view: int = 200
    """Neighbours of a node at the most, 1 to 10,000. Ours: views of a million nodes have 40."""
    max_forwards: int = 20
    """How often a subscription is passed on, 1 to 1000; then it is kept, or dropped by who has it
    already. Ours: where everybody knows everybody nobody would ever keep it, and a network that
    duplicates one packet in ten makes a million of one in 150 hops."""
    walk_length: int = 5
    """Hops of a subscription before it counts, 0 to 64. Ours."""
    lease_ns: Duration = 60 * _SECOND
    """How long a subscription lasts. Ours: the paper leaves it open."""
    heartbeat_period_ns: Duration = 5 * _SECOND
    """Between two heartbeats. Ours."""
    isolated_after: int = 3
    """Periods without a heartbeat after which a node subscribes again. Ours."""
    contact_every: int = 4
    """Every so many subscriptions one is made at a contact given at the start, 0 (never) to 10,000.
    Ours: the two sides of a split network forget each other within a lease."""
    max_contacts: int = 16
    """Contacts remembered to join through, and as many former neighbours, 1 to 1000. Ours."""

    def __post_init__(self) -> None:
        check_bounds(self, _BOUNDS)
