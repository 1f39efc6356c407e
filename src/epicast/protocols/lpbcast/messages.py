"""What lpbcast nodes say to each other. `wire_bound` functions never say less than what a part adds
to a message: gossip fits its datagram by construction."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import EventBatch, Message, NodeId, Peer
from epicast.core.message import FRAME_HEADER_BYTES, LAYER_BYTES, MAX_LAYERS
from epicast.core.ranges import Id, Seq
from epicast.wire import register


class Subscription(Struct, frozen=True, array_like=True, gc=False):
    """A member. `life` grows when it joins again: it overrules unsubscriptions of earlier lives."""

    peer: Peer
    life: Id


class Unsubscription(Struct, frozen=True, array_like=True, gc=False):
    """A member that has left; obsolete when no `rounds` are left."""

    peer: NodeId
    life: Id
    rounds: Seq


class Notification(Struct, frozen=True, array_like=True):
    """Events of one source, and how many rounds ago they were published."""

    age: Seq
    batch: EventBatch


class EventRange(Struct, frozen=True, array_like=True, gc=False):
    """Events by their ids."""

    source: NodeId
    first: Seq
    last: Seq


class Announcement(Struct, frozen=True, array_like=True, gc=False):
    """Events too large for gossip, to be fetched from whoever announces them."""

    age: Seq
    events: EventRange


class SourceDigest(Struct, frozen=True, array_like=True):
    """What a node has delivered of one source: all up to `end`, and beyond it what is listed,
    ascending."""

    source: NodeId
    end: Seq
    beyond: tuple[tuple[Seq, Seq], ...] = ()


@register(128)
class Gossip(Message):
    """All of section 3.2 in one message."""

    subscriptions: tuple[Subscription, ...] = ()
    unsubscriptions: tuple[Unsubscription, ...] = ()
    events: tuple[Notification, ...] = ()
    announced: tuple[Announcement, ...] = ()
    digest: tuple[SourceDigest, ...] = ()
    smallest_buffer: Seq = 0
    """The least `max_events` the sender has heard of lately; 0: it does not say."""


@register(129)
class Subscribe(Message):
    """To somebody known: gossip my subscription for me."""

    subscription: Subscription


@register(130)
class Retrieve(Message):
    """Send me these events."""

    wanted: tuple[EventRange, ...]


@register(131)
class Retrieved(Message):
    """Those of them that were there."""

    events: tuple[Notification, ...]


_INT = 9
_ARRAY = 3
"""Of up to 65,535 elements; longer ones do not fit a message."""
GOSSIP_BYTES = FRAME_HEADER_BYTES + MAX_LAYERS * LAYER_BYTES + 1 + 5 * _ARRAY + _INT
UNSUBSCRIPTION_BYTES = 1 + 3 * _INT
EVENT_RANGE_BYTES = 1 + 3 * _INT
ANNOUNCEMENT_BYTES = 1 + _INT + EVENT_RANGE_BYTES
DIGEST_RANGE_BYTES = 1 + 2 * _INT


def subscription_bytes(subscription: Subscription) -> int:
    return 2 + 3 * _INT + 5 + len(subscription.peer.host.encode())


def notification_bytes(batch_bytes: int) -> int:
    return 1 + 2 * _INT + batch_bytes


def digest_bytes(ranges_beyond: int) -> int:
    return 1 + 2 * _INT + _ARRAY + ranges_beyond * DIGEST_RANGE_BYTES
