"""Everything that can be set about reinforced views."""

from epicast.deployment import Duration
from epicast.protocols.config import ProtocolConfig, check_bounds

_SECOND = 1_000_000_000
_BOUNDS: dict[str, tuple[float, float]] = {
    "view_size": (2, 1000),
    "exchange_period_ns": (1_000_000, 3600 * _SECOND),
    "exchange_jitter": (0, 0.9),
    "contact_every": (0, 10_000),
    "max_contacts": (1, 1000),
}


class ReinforcementConfig(ProtocolConfig, frozen=True, kw_only=True):
    view_size: int = 20
    """Neighbours of a node, 2 to 1000. Sprinkler's simulations: 20."""
    exchange_period_ns: Duration = _SECOND
    """Between two exchanges a node begins, 1 ms to 1 h. Ours: as Sprinkler's regions have it."""
    exchange_jitter: float = 0.1
    """Share of the period by which each may come earlier or later, 0 to 0.9. Ours."""
    contact_every: int = 20
    """Every so many exchanges one is with a contact given at the start, 0 (never) to 10,000. Ours:
    the two sides of a split network forget each other."""
    max_contacts: int = 16
    """Contacts remembered, 1 to 1000. Ours."""

    def __post_init__(self) -> None:
        check_bounds(self, _BOUNDS)
