from epicast.core import ConfigError
from epicast.deployment import Size
from epicast.protocols.config import ProtocolConfig


class PushGossipConfig(ProtocolConfig, frozen=True, kw_only=True):
    fanout: int = 5
    """Peers each new event is sent to; ln(n) plus a few. 1 to 1000."""
    max_datagram_bytes: Size = 1200
    """Batches up to this size go as datagrams: safely inside an MTU of 1400 with headers."""
    max_sources: int = 4096
    """Publishers remembered for duplicate suppression."""
    max_gaps: int = 1024
    """Holes remembered per publisher."""

    def __post_init__(self) -> None:
        if not 1 <= self.fanout <= 1000:
            raise ConfigError(f"fanout: {self.fanout} is not between 1 and 1000")
        if not 0 <= self.max_datagram_bytes <= 65000:
            raise ConfigError(f"max_datagram_bytes: {self.max_datagram_bytes} is not 0 to 65000")
        if self.max_sources < 1 or self.max_gaps < 1:
            raise ConfigError("max_sources and max_gaps must be at least 1")
