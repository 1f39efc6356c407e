"""Everything that can be set about flooding."""

from epicast.core import ConfigError
from epicast.protocols.config import ProtocolConfig


class FloodConfig(ProtocolConfig, frozen=True, kw_only=True):
    max_sources: int = 4096
    """Publishers remembered for duplicate suppression, at least 1. Ours: as push gossip."""
    max_gaps: int = 1024
    """Holes remembered per publisher, at least 1. Ours: as push gossip."""

    def __post_init__(self) -> None:
        for name in ("max_sources", "max_gaps"):
            value = getattr(self, name)
            if value < 1:
                raise ConfigError(f"{name}: {value} is not at least 1")
