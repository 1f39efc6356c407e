"""A simulated node: a protocol and the circumstances it lives in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from epicast.core import NEVER, NodeId, Peer, Protocol, Publication, TimerTable
from epicast.sim.bandwidth import Interface
from epicast.sim.clock import DriftingClock
from epicast.sim.disk import SimDisk
from epicast.sim.link import Link

if TYPE_CHECKING:
    from epicast.sim.service import Service

ProtocolFactory = Callable[[Peer, Random], Protocol[Any]]
Report = Callable[[], None]
Waiting = tuple[NodeId | None, Any, int]
"""Source, message, bytes; or None and a report that waits its turn between messages."""


class Life:
    """From a start to the next, which ends what was sent as a datagram and has not arrived."""

    __slots__ = ("alive",)

    def __init__(self) -> None:
        self.alive = True


class SimNode:
    """State only; `Simulation` and `Network` act on it."""

    __slots__ = (
        "alarms", "alive", "armed", "backlog", "being_served", "clock", "disk", "ended", "factory",
        "ghosts", "handlers", "id", "inbox", "incarnation", "interface", "known", "life", "links",
        "on_messages", "paused", "peer", "protocol", "service", "special", "started", "timers",
        "unpublished", "vanished",
    )  # fmt: skip

    def __init__(self, peer: Peer, factory: ProtocolFactory) -> None:
        self.peer = peer
        self.id: NodeId = peer.id
        self.factory = factory
        self.protocol: Protocol[Any]
        self.on_messages: Callable[..., None]
        self.handlers: Mapping[type, Callable[..., None]] = {}
        """The protocol's message handlers, if it leaves dispatching to its base class."""
        self.timers: TimerTable
        self.incarnation = 0
        self.life = Life()
        self.started = 0
        """How often nodes had gone up or down when it did."""
        self.alive = False
        self.vanished = False
        """It went down without a trace: nobody is there to refuse a connection."""
        self.paused = False
        self.special = True
        """Whether a message to this node needs more than being handed to its protocol."""
        self.armed = NEVER
        """The local time of its next alarm."""
        self.alarms: list[int] = []
        """Of all its alarms, the next one last."""
        self.links: dict[NodeId, Link] = {}
        self.ended: dict[NodeId, Link] = {}
        """Connections it wanted and has not been told the end of yet."""
        self.ghosts = 0
        """Connections of earlier lives, at whose other end nobody knows yet that they are dead."""
        self.known: set[NodeId] | None = None
        """Peers whose address it was told, where that is checked."""
        self.clock: DriftingClock | None = None
        self.disk: SimDisk | None = None
        self.interface: Interface | None = None
        self.backlog: list[Report] = []
        """What came while it was paused."""
        self.unpublished: list[Publication] = []
        """What the application wants to publish, waiting for room."""
        self.inbox: list[Waiting] = []
        """Messages waiting for the processor, where service takes time."""
        self.being_served = False
        self.service: Service | None = None
        """What its messages take, if that is not what they take everywhere."""

    def begin_life(self) -> None:
        self.incarnation += 1
        self.life.alive = False
        self.life = Life()
        self.alive, self.vanished = True, False
        self.armed = NEVER
        self.alarms = []

    def end_life(self, *, silently: bool) -> None:
        self.alive = self.paused = self.being_served = False
        self.vanished = silently
        self.ended.clear()
        self.backlog.clear()
        self.unpublished.clear()
        self.inbox.clear()

    def install(self, protocol: Protocol[Any]) -> None:
        self.protocol = protocol
        self.on_messages = protocol.on_messages
        self.handlers = protocol.direct_handlers()
        self.timers = protocol.timers

    def __repr__(self) -> str:
        state = "paused" if self.paused else "up" if self.alive else "down"
        return f"<SimNode {self.id} {state}>"
