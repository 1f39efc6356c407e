"""What a protocol wants done: appended here by its handlers, carried out by the driver afterwards.

Sends and deliveries are by far the most frequent and have lists of their own; everything else is an
`Operation` in one ordered list. One buffer is reused for every step of a driver, which empties the
three lists and never replaces them: layers and topics hold on to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from epicast.core.batch import EventBatch
from epicast.core.ids import Group, NodeId, Peer
from epicast.core.message import AnyMessage

Channel = int
CONTROL: Channel = 0
"""Reliable and in order; overtakes DATA on the same link."""
DATA: Channel = 1
"""Reliable and in order."""
DATAGRAM: Channel = 2
"""May be lost, duplicated and reordered."""

Destination = NodeId | Sequence[NodeId] | Group
Send = tuple[Destination, AnyMessage, Channel]


class Publication(Struct, frozen=True):
    """Events on their way to their stream or topic, named by publisher and publisher sequence."""

    publisher: int
    first: int
    batch: EventBatch
    topic: int = 0
    """Which topic of a `Host`; 0 where a node runs one protocol only."""
    level: str = ""
    """When it is to be acknowledged, where the protocol offers a choice; empty: as it sees fit."""


class Operation(Struct, frozen=True):
    """Base of the less frequent effects."""


class Connect(Operation, frozen=True):
    peer: Peer


class Disconnect(Operation, frozen=True):
    peer: NodeId


class Know(Operation, frozen=True):
    peer: Peer


class Join(Operation, frozen=True):
    group: Group


class Leave(Operation, frozen=True):
    group: Group


class Append(Operation, frozen=True):
    batch: EventBatch


class Save(Operation, frozen=True):
    name: str
    value: bytes


class BeginEpoch(Operation, frozen=True):
    """The stream's history goes on in `epoch`: with all that is there, or, if it keeps nothing,
    from its first number. Written in turn with the batches before and after it."""

    stream: int
    epoch: int
    keeps: bool
    aside: int = 0
    """Where nothing is kept: from which number on events are set aside instead of removed, for
    people to look at; 0: none are."""

    def wire_size(self) -> int:
        return 0

    def after(self, earlier: BeginEpoch | None) -> BeginEpoch:
        """This order, where an earlier one was not carried out: what that one was to remove must
        not come back under another epoch."""
        if earlier is None or earlier.keeps:
            return self
        aside = min(self.aside, earlier.aside) or max(self.aside, earlier.aside)
        return BeginEpoch(self.stream, max(self.epoch, earlier.epoch), False, aside)


class Release(Operation, frozen=True):
    stream: int
    seq: int


Write = EventBatch | BeginEpoch
"""What a history is asked to do, in order."""


class SendAfterAppend(Operation, frozen=True):
    to: Destination
    message: AnyMessage
    channel: Channel


class DeliverAfterAppend(Operation, frozen=True):
    batch: EventBatch
    topic: int = 0


class TopicDelivery(Operation, frozen=True):
    """A delivery to the subscriber of one topic of a `Host`."""

    topic: int
    batch: EventBatch


class Notice(Operation, frozen=True):
    """Something the subscriber of a topic, or the application as such (topic 0), ought to know."""

    topic: int
    value: Struct


class Read(Operation, frozen=True):
    stream: int
    first: int
    max_bytes: int
    token: int


class Acknowledge(Operation, frozen=True):
    publication: Publication
    level: str
    seq: int


class Refuse(Operation, frozen=True):
    publication: Publication
    error: str


class Drop(Operation, frozen=True):
    reason: str
    peer: NodeId
    stream: int
    first: int
    last: int


class ViewChange(Operation, frozen=True):
    """The protocol's neighbourhood changed: traced, and told to the layer above in a stack."""

    peer: NodeId
    up: bool


class Effects:
    """The buffer a handler writes to."""

    __slots__ = ("deliveries", "operations", "room", "sends", "wall_offset")

    def __init__(self) -> None:
        self.sends: list[Send] = []
        self.deliveries: list[EventBatch] = []
        self.operations: list[Operation] = []
        self.wall_offset = 0
        """Wall-clock time is the handler's `now` plus this."""
        self.room: Callable[[NodeId], int] = _unlimited
        """Bytes that may be sent to a peer before its queue is full, not counting what this step
        has sent so far."""

    def send(self, to: Destination, message: AnyMessage, channel: Channel = CONTROL) -> None:
        """Send to one peer, several, or a group; the message is encoded once.

        On CONTROL and DATA a connection is made if there is none; a peer that was never
        connected to must be made known first, by `connect` or `know`.
        """
        self.sends.append((to, message, channel))

    def deliver(self, batch: EventBatch) -> None:
        """Hand a batch to the subscriber, or to the layer above in a stack."""
        self.deliveries.append(batch)

    def publish_below(self, publication: Publication) -> None:
        """Hand a publication to the layer below in a stack."""
        raise RuntimeError("publish_below: this protocol has no layer below it")

    def neighbor_up(self, peer: NodeId) -> None:
        """`peer` is a neighbour now; the layer above, if any, gets `on_peer_up`."""
        self.operations.append(ViewChange(peer, True))

    def neighbor_down(self, peer: NodeId) -> None:
        """`peer` is no neighbour any more; the layer above, if any, gets `on_peer_down`."""
        self.operations.append(ViewChange(peer, False))

    def connect(self, peer: Peer) -> None:
        """State interest in a connection; answered by `on_peer_up` or `on_peer_down`."""
        self.operations.append(Connect(peer))

    def disconnect(self, peer: NodeId) -> None:
        """End the interest; no `on_peer_down` follows."""
        self.operations.append(Disconnect(peer))

    def know(self, peer: Peer) -> None:
        """Tell the driver the address of a peer that may be sent to without being connected."""
        self.operations.append(Know(peer))

    def join(self, group: Group) -> None:
        self.operations.append(Join(group))

    def leave(self, group: Group) -> None:
        self.operations.append(Leave(group))

    def append(self, batch: EventBatch) -> None:
        """Store; answered by `on_appended` once durable, or `on_append_failed`."""
        self.operations.append(Append(batch))

    def begin_epoch(self, stream: int, epoch: int, *, keeps: bool, aside: int = 0) -> None:
        """Make the stream's history go on in `epoch`, and keep its events or forget them. A batch
        of any other epoch is refused. If the order fails, `on_epoch_failed` is called, and
        everything appended after it fails as well."""
        self.operations.append(BeginEpoch(stream, epoch, keeps, aside))

    def release(self, stream: int, seq: int) -> None:
        """Let the stored events of a stream collect others, up to a number: they will stay. Only
        where histories wait for it, as those of replicas do."""
        self.operations.append(Release(stream, seq))

    def save(self, name: str, value: bytes) -> None:
        """Store a small value, durable together with the appends of the same step."""
        self.operations.append(Save(name, value))

    def send_after_append(
        self, to: Destination, message: AnyMessage, channel: Channel = CONTROL
    ) -> None:
        """Send once everything appended and saved so far is durable."""
        self.operations.append(SendAfterAppend(to, message, channel))

    def deliver_after_append(self, batch: EventBatch) -> None:
        self.operations.append(DeliverAfterAppend(batch))

    def deliver_to(self, topic: int, batch: EventBatch) -> None:
        """Hand a batch to one of several subscribers on this node."""
        self.operations.append(TopicDelivery(topic, batch))

    def notice(self, topic: int, value: Struct) -> None:
        """Tell the application something that is not an event."""
        self.operations.append(Notice(topic, value))

    def read(self, stream: int, first: int, max_bytes: int, token: int) -> None:
        """Read history from `first` on; answered by `on_read` with the same token."""
        self.operations.append(Read(stream, first, max_bytes, token))

    def acknowledge(self, publication: Publication, level: str, seq: int) -> None:
        self.operations.append(Acknowledge(publication, level, seq))

    def refuse(self, publication: Publication, error: str) -> None:
        self.operations.append(Refuse(publication, error))

    def drop(
        self, reason: str, peer: NodeId = 0, stream: int = 0, first: int = 0, last: int = 0
    ) -> None:
        """Record that something was given up: a bound was reached, or a message made no sense."""
        self.operations.append(Drop(reason, peer, stream, first, last))

    def clear(self) -> None:
        self.sends.clear()
        self.deliveries.clear()
        self.operations.clear()

    def __bool__(self) -> bool:
        return bool(self.sends or self.deliveries or self.operations)


def _unlimited(_: NodeId) -> int:
    return 1 << 62
