"""The contract between a protocol and whatever drives it.

A protocol is a passive object. Time and randomness are arguments, output is appended to `Effects`,
and the one timer is a number the driver reads. The same class therefore runs in the simulator,
replayable from a seed, and on the network. Rules for both sides:

* The driver calls one handler at a time and carries out the effects after it returned: addresses
  are learnt first, then sends, deliveries and operations follow, each in the order asked for. So a
  goodbye sent in the step of a `disconnect` still goes out.
* `now` is monotonic, in integer nanoseconds; wall-clock time is `now + fx.wall_offset`.
* After `fx.connect(peer)` comes exactly one `on_peer_up` or `on_peer_down`; after an up, at most
  one down. A down comes before the up of a new incarnation of the peer, and nothing that was sent
  before a down arrives after the next up.
* A down ends the interest: who wants the peer back connects again. `fx.disconnect` ends it
  silently. Messages come from peers without interest too.
* Never count on a down because the other side has disconnected: the connection stays open while
  anything on either node uses it. Say goodbye with a message.
* Messages are shared with their sender and other receivers: never change one.
* A handler must accept any well-formed message from any peer at any time. What makes no sense is
  dropped with `fx.drop`, which counts it.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Generic, TypeVar
from typing import Protocol as Interface

from msgspec import Struct

from epicast.core.batch import EventBatch
from epicast.core.effects import BeginEpoch, Effects, Publication
from epicast.core.ids import NodeId, Peer
from epicast.core.message import AnyMessage, Message
from epicast.core.timers import NEVER, TimerTable


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of protocol configurations: immutable, validated where they are read."""


ConfigT = TypeVar("ConfigT")
HandlerT = TypeVar("HandlerT", bound=Callable[..., None])


class Recovered(Struct, frozen=True):
    """What a node finds when it starts: nothing at all the first time."""

    incarnation: int = 0
    """Grows with every start of the node."""
    log_ends: Mapping[int, int] = {}
    """Highest durable sequence number per stream."""
    saved: Mapping[str, bytes] = {}
    epochs: Mapping[int, int] = {}
    """The epoch each stream's history is in."""
    publishers: Mapping[int, Mapping[int, int]] = {}
    """Per stream: the highest publisher sequence number of each publisher still remembered."""
    doubtful: frozenset[int] = frozenset()
    """Streams that may lack events at their end which others have seen."""


class PeerSampler(Interface):
    def sample(self, k: int) -> list[NodeId]:
        """Up to `k` distinct peers, never the node itself."""


def handles(message_type: type[Message]) -> Callable[[HandlerT], HandlerT]:
    """Mark a method as the handler of one message type: `(self, now, source, message, fx)`."""

    def mark(method: HandlerT) -> HandlerT:
        method.__dict__["_handles"] = message_type
        return method

    return mark


def _marked_methods(owner: type) -> dict[str, type[Message]]:
    return {
        name: method.__dict__["_handles"]
        for name, method in owner.__dict__.items()
        if "_handles" in getattr(method, "__dict__", ())
    }


class Protocol(ABC, Generic[ConfigT]):
    """Base class; every handler does nothing unless a protocol has use for it."""

    __slots__ = ("below", "config", "node", "rng", "timers")

    _handlers: ClassVar[dict[type, Callable[..., None]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names: dict[type, str] = {}
        for base in reversed(cls.__mro__):
            marked = _marked_methods(base)
            if len(marked) > len(set(marked.values())):
                raise TypeError(f"{base.__name__} has two handlers for one message type")
            names |= {message_type: name for name, message_type in marked.items()}
        # By name, so that a subclass overrides a handler as it overrides any other method.
        cls._handlers = {message_type: getattr(cls, name) for message_type, name in names.items()}

    def __init__(self, node: Peer, config: ConfigT, rng: Random) -> None:
        self.node = node
        self.config = config
        self.rng = rng
        self.timers = TimerTable()
        self.below: PeerSampler | None = None
        """The layer below in a stack, as a source of peers."""

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        """The node is up; `contacts` are peers to join through (none: the first of its kind)."""

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        """The application publishes."""

    def publish_room(self) -> int:
        """How many events may be published now; at 0 the driver stops reading publishers."""
        return 1 << 30

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None:
        """Messages from one peer, in order per channel."""
        handlers = self._handlers
        for message in messages:
            handler = handlers.get(type(message))
            if handler is None:
                fx.drop(f"unexpected {type(message).__name__}", source)
            else:
                handler(self, now, source, message, fx)

    def direct_handlers(self) -> Mapping[type, Callable[..., None]]:
        """The handlers by message type, for drivers that spare themselves `on_messages`; none, if
        the protocol does more there than to call them."""
        return self._handlers if type(self).on_messages is Protocol.on_messages else {}

    def on_delivery(self, now: int, batch: EventBatch, fx: Effects) -> None:
        """The layer below delivered a batch. Passed on unless the protocol cares."""
        fx.deliver(batch)

    def on_appended(self, now: int, stream: int, seq: int, fx: Effects) -> None:
        """Everything of `stream` up to `seq` is durable."""

    def on_append_failed(self, now: int, stream: int, first: int, reason: str, fx: Effects) -> None:
        """Nothing of `stream` from `first` on was stored."""

    def on_epoch_failed(self, now: int, order: BeginEpoch, reason: str, fx: Effects) -> None:
        """A history could not begin an epoch. Nothing more of its stream is stored until that is
        ordered again, or a later epoch is that keeps no more than this one was to keep."""

    def on_read(self, now: int, token: int, batches: Sequence[EventBatch], fx: Effects) -> None:
        """The answer to `fx.read`."""

    def on_ready(self, now: int, peer: NodeId, room: int, fx: Effects) -> None:
        """A link that was full has `room` bytes again."""

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        """A connection we asked for stands; in a stack: the layer below has a new neighbour."""

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        """A connection failed or was closed by the peer; in a stack: a neighbour is gone."""

    def on_timer(self, now: int, fx: Effects) -> None:
        """The deadline has come: `on_deadline` for each timer due."""
        for name in self.timers.due(now):
            # Still armed? The handler of one timer may have cancelled or moved another.
            if self.timers.expire(name, now):
                self.on_deadline(now, name, fx)

    def on_deadline(self, now: int, name: str, fx: Effects) -> None:
        """The timer `name` is due; it is disarmed already."""

    def on_stop(self, now: int, fx: Effects) -> None:
        """The node is about to leave in good order: a chance to say goodbye."""

    def next_deadline(self) -> int | None:
        earliest = self.timers.earliest
        return None if earliest == NEVER else earliest

    def sample(self, k: int) -> list[NodeId]:
        """Up to `k` random peers; a protocol without a view of its own asks the layer below."""
        return self.below.sample(k) if self.below is not None else []

    def neighbors(self) -> list[NodeId]:
        """The peers this protocol talks to, for overlay metrics."""
        return []

    def check_invariants(self) -> None:
        """Raise `InvariantViolation`, with evidence, if the state is impossible."""

    def statistics(self) -> Mapping[str, int | float]:
        return {}
