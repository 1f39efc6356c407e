"""What drivers say to each other on a connection before protocols do."""

from epicast.core import Message
from epicast.wire import register


@register(1)
class Accepted(Message):
    """First frame from the node with the lower id: this connection is the one the two use.

    Until then the other node sends nothing but its greeting. So of two connections made at the same
    time, from both sides, one is closed before anything travelled on it.
    """
