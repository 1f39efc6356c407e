"""What an agent or client tells the application it is part of, besides events."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import Peer
from epicast.protocols.sprinkler.messages import Counter, StreamInfo


class Attached(Struct, frozen=True):
    """There is a proxy, and these are its streams. Comes again after each reconnection."""

    region: str
    streams: tuple[StreamInfo, ...]
    heads: tuple[Counter, ...]
    heartbeat_ns: int
    is_sidecar: bool = False
    """Attached to a sidecar agent instead of the proxy itself."""


class Detached(Struct, frozen=True):
    """The proxy cannot be reached at the moment; the node keeps trying."""

    reason: str
    proxy: Peer
    """The proxy that was tried, or that was lost."""


class Heads(Struct, frozen=True):
    """The proxy has said how far each stream is: a heartbeat. `asked_at` is when it was asked, so
    it was no further than this at that time."""

    heads: tuple[Counter, ...]
    asked_at: int


class Restarted(Struct, frozen=True):
    """A subscription cannot continue where it was: it goes on behind `seq` of `epoch`."""

    stream: int
    epoch: int
    seq: int


class NotAllowed(Struct, frozen=True):
    """A subscription that this node has no right to; the detail says what to change."""

    stream: int
    detail: str


class NoSuchStream(Struct, frozen=True):
    """A subscription to something the proxy does not have."""

    stream: int
