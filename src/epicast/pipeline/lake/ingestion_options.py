"""How an ingestion is to be run: known to the supervisor, which knows nothing of Spark."""

from __future__ import annotations

from msgspec import Struct

DEFAULT_MAX_EVENTS = 8_000_000
DEFAULT_INTERVAL_S = 2.0
DEFAULT_MIN_FREE_MB = 512
DEFAULT_PATIENCE_S = 20


class IngestionOptions(Struct, frozen=True, kw_only=True):
    lake: str
    proxy: str
    once: bool = False
    interval_s: float = DEFAULT_INTERVAL_S
    master: str = "local[*]"
    memory: str = "1g"
    max_events: int = DEFAULT_MAX_EVENTS
    """In one batch."""
    patience_s: int = DEFAULT_PATIENCE_S
    min_free_mb: int = DEFAULT_MIN_FREE_MB
