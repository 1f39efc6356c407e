"""How nodes exchange views; the regions of Sprinkler use it too."""

from epicast.core import Message, Peer
from epicast.wire import register

MOST_IN_DATAGRAM = 30
"""Peers of an exchange that fit a datagram, with long names."""


@register(80)
class ViewExchange(Message):
    """Membership: the sender's view, and whether it wants the receiver's in return."""

    sender: Peer
    view: tuple[Peer, ...]
    wants_answer: bool
