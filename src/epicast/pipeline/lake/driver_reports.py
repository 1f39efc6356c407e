"""What the driver's process tells its supervisor, one JSON object per line."""

from __future__ import annotations

from msgspec import Struct

from epicast import Watermark


class Committed(Struct, frozen=True):
    """A batch that is in the table now."""

    batch: int
    rows: int
    size: int
    seconds: float
    watermarks: dict[str, Watermark]


class Running(Struct, frozen=True, tag="running"):
    """The query has begun."""


class Batch(Struct, frozen=True, tag="batch"):
    committed: Committed


class Failure(Struct, frozen=True, tag="failure"):
    error: str
    final: bool
    """Trying again would not help."""


Report = Running | Batch | Failure
