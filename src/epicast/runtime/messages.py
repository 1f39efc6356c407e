"""What drivers say to each other on a connection before protocols do."""

from enum import IntEnum

from epicast.core import Message
from epicast.wire import register


@register(1)
class Accepted(Message):
    """First frame from the node with the lower id: this connection is the one the two use.

    Until then the other node sends nothing but its greeting. So of two connections made at the same
    time, from both sides, one is closed before anything travelled on it.
    """


class DeclineCode(IntEnum):
    """Why somebody is not let in."""

    BUSY = 0
    """There is no room at the moment: worth another attempt."""
    IDENTITY = 1
    """It is not who it should be, or nobody who may: the same attempt would end the same way."""


@register(2)
class Declined(Message):
    """The last frame on a connection that is not used: why, and what to do about it."""

    code: DeclineCode
    reason: str
