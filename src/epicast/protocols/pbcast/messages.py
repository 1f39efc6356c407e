"""What pbcast nodes say to each other."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import EventBatch, Message, NodeId
from epicast.core.message import FRAME_HEADER_BYTES, LAYER_BYTES, MAX_LAYERS
from epicast.core.ranges import Seq
from epicast.wire import register


class Passed(Struct, frozen=True, array_like=True):
    """Events of one source: rounds since they were published, and how often they were passed on."""

    age: Seq
    hops: Seq
    batch: EventBatch


class Range(Struct, frozen=True, array_like=True, gc=False):
    """Events by their ids."""

    source: NodeId
    first: Seq
    last: Seq


@register(144)
class Pass(Message):
    """Events: multicast, solicited, or gossiped inline."""

    events: tuple[Passed, ...]


@register(145)
class Digest(Message):
    """Gossip: what the sender can send."""

    available: tuple[Range, ...]


@register(146)
class Solicit(Message):
    """Send me these."""

    wanted: tuple[Range, ...]


_INT, _ARRAY = 9, 3
MESSAGE_BYTES = FRAME_HEADER_BYTES + MAX_LAYERS * LAYER_BYTES + 1 + _ARRAY
RANGE_BYTES = 1 + 3 * _INT


def passed_bytes(passed: Passed) -> int:
    """At most what it adds to a message."""
    return 1 + 3 * _INT + passed.batch.wire_size()
