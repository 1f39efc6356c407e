"""What proxies, agents and clients say to each other. Type ids 64 to 127, but for 80: views are
exchanged by the message of `protocols/reinforcement`.

Attachments and subscriptions serve everybody: a proxy that follows a stream at another proxy, an
agent that reads history, and a plain client use the same messages.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from epicast.core import EventBatch, Message, NodeId, Peer
from epicast.core.ranges import Epoch, Id, Nanoseconds, Positive, Publisher, Seq
from epicast.wire import register


class Counter(Struct, frozen=True, array_like=True, gc=False):
    """How far somebody is in a stream: everything up to `seq` of `epoch`."""

    stream: Id
    epoch: Epoch
    seq: Seq


class StreamInfo(Struct, frozen=True, array_like=True):
    """What everybody needs to know about a stream."""

    id: Id
    name: str
    owner: Id
    """The node that numbers its events."""
    region: str
    """Where that node is."""
    level: str = "memory"
    """When a publication is acknowledged unless its publisher asks for more."""
    latest_per_key: bool = False
    last_n: Positive | None = None
    max_age_ns: Positive | None = None
    max_key_bytes: Seq = 1024
    description: str = ""
    spreads: bool = True
    """Whether agents pass it on to each other. If not everybody may read it, they do not: then it
    comes from the proxy, which knows who may."""


class RefusalCode(IntEnum):
    """Why a publication was not taken; all but BUSY are final."""

    BUSY = 0
    """No room at the moment, or no way to the owner: worth another attempt."""
    UNKNOWN_STREAM = 1
    GAP = 2
    """A publication of this publisher that comes before it is missing."""
    INVALID = 3
    """The events are not acceptable: a key too long, a predicate that does not parse."""
    STORAGE = 4
    """The owner cannot store: the disk is full or failing."""
    LEVEL = 5
    """The acknowledgement asked for cannot be given."""
    FORBIDDEN = 16
    """Who publishes has no right to."""


OF_REQUEST = 0
"""In place of a subscription's number, which is never 0."""


@register(64, datagrams=False)
class Attach(Message):
    """An agent or client is there and wants to know what there is."""

    node: Peer
    listens: bool
    """Whether others can connect to it, as they must to an agent."""


@register(65, datagrams=False)
class Welcome(Message):
    """The answer: where it is, and the streams there are."""

    region: str
    proxy: Peer
    streams: tuple[StreamInfo, ...]
    counters: tuple[Counter, ...]
    heartbeat_ns: Nanoseconds
    """How often a poll is expected, and answered."""
    is_sidecar: bool = False
    """The answer is that of an agent: who attaches to it can only be a plain client."""
    proxies: tuple[Peer, ...] = ()
    """Where there are several replicas of the proxy: all of them, any of which will do."""


@register(66, datagrams=False)
class Subscribe(Message):
    """Send the events of a stream behind a watermark, at most `window` bytes ahead of `Consumed`.

    `number` is the subscriber's own name for it.
    """

    number: Id
    stream: Id
    epoch: Epoch
    after: Seq
    window: Seq


@register(67, datagrams=False)
class Unsubscribe(Message):
    number: Id


@register(68, datagrams=False)
class Consumed(Message):
    """Everything up to `seq` of `epoch` has been taken: there is room for more."""

    number: Id
    epoch: Epoch
    seq: Seq


@register(69, datagrams=False)
class Events(Message):
    """Consecutive events for one subscription."""

    number: Id
    batches: tuple[EventBatch, ...]


@register(70, datagrams=False)
class Tail(Message):
    """The newest events, for every subscription of the receiver that has got so far."""

    batches: tuple[EventBatch, ...]


@register(71, datagrams=False)
class Restart(Message):
    """What the subscription waits for is gone; it goes on behind `seq` of `epoch`."""

    number: Id
    """The subscription's number, or `OF_REQUEST` in the answer to an agent's request."""
    stream: Id
    epoch: Epoch
    seq: Seq


@register(72, datagrams=False)
class Advertisement(Message):
    """How far the sender is: to other proxies the advertisements of the paper, to those attached
    the answer to their poll."""

    counters: tuple[Counter, ...]
    asked_at: Nanoseconds = 0
    """That of the poll it answers."""
    chain: Seq = 0
    """Between proxies: which configuration of its region's chain the sender speaks for."""


@register(73, datagrams=False)
class Poll(Message):
    """Are you there, and how far?"""

    asked_at: Nanoseconds
    """The asker's own time, for the asker."""


@register(74, datagrams=False)
class Publish(Message):
    """Events for a stream, on their way to its owner.

    The publisher numbers its own events of each stream; `first` is that of the batch's first.
    """

    stream: Id
    publisher: Publisher
    first: Seq
    settled: Seq
    """Everything of the publisher up to this number has been answered, and will not come again."""
    level: str
    path: tuple[NodeId, ...]
    """Who has it from whom: the answer goes back the same way, the last one first."""
    batch: EventBatch


@register(75, datagrams=False)
class Published(Message):
    """Publications are stored as they asked to be: of each, the publisher's number of its last
    event and the number that event has in the stream. Everything of the publisher before is, too.
    """

    stream: Id
    publisher: Id
    path: tuple[NodeId, ...]
    """The rest of the way back."""
    acks: tuple[tuple[Id, Seq], ...]


@register(76, datagrams=False)
class Refused(Message):
    """Nothing from the publisher's `first` on was taken."""

    stream: Id
    publisher: Id
    path: tuple[NodeId, ...]
    first: Seq
    last: Id
    code: RefusalCode
    detail: str


@register(77, datagrams=False)
class Notify(Message):
    """NOTIFY: the sender has got so far. Few and small new events come along."""

    counters: tuple[Counter, ...]
    batches: tuple[EventBatch, ...]


@register(78, datagrams=False)
class Request(Message):
    """REQUEST: send first..last, or what you have of it."""

    stream: Id
    epoch: Epoch
    first: Seq
    last: Seq


@register(79, datagrams=False)
class Answer(Message):
    """EVENTS: what the sender has of a request, and how far it is itself.

    What no batch covers is unknown to the sender, as opposed to what a batch buries.
    """

    counter: Counter
    first: Seq
    last: Seq
    batches: tuple[EventBatch, ...]


@register(89, datagrams=False)
class SendAgain(Message):
    """What was relayed and has had no answer may have been lost: publish it again."""


@register(81, datagrams=False)
class Skipped(Message):
    """Reserved: these numbers were left out because the subscription filters by key."""

    number: Id
    first: Seq
    last: Seq


@register(82, datagrams=False)
class StatusRequest(Message):
    """How are you? Asked by people's tools, not by protocols."""


@register(83, datagrams=False)
class StatusReply(Message):
    """JSON, described where services are."""

    document: bytes
    refusal: str = ""
    """Why there is no document."""


@register(120, datagrams=False)
class Forbidden(Message):
    """The answer to a subscription that its subscriber has no right to."""

    number: Id
    stream: Id
    detail: str
