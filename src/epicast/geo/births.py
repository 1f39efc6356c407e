"""What a nursery and whoever runs it tell each other, one JSON object per line."""

from __future__ import annotations

from msgspec import Struct

from epicast.geo.logs import LogFormat


class Setup(Struct):
    """The first line."""

    geoplex: str
    """Pickled, in base64: it comes from the process that started this one."""
    log_format: LogFormat = "text"
    log_level: str = "warning"
    stop_timeout_s: float = 10.0
    """For all proxies together; those that take longer are killed."""


class Start(Struct, tag="start"):
    region: str


class Loaded(Struct, tag="loaded"):
    """What a proxy needs is in memory."""

    seconds: float


class Ready(Struct, tag="ready"):
    region: str
    pid: int


class Failed(Struct, tag="failed"):
    """A proxy, or with no region everything, cannot start."""

    region: str
    error: str


class Ended(Struct, tag="ended"):
    region: str
    pid: int
    status: int
    """As `subprocess` has it: negative if a signal ended it."""


Report = Loaded | Ready | Failed | Ended
