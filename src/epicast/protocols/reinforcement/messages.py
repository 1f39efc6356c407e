"""How nodes exchange views; the regions of Sprinkler use it too."""

from typing import Annotated

from msgspec import Meta

from epicast.core import Message, Peer
from epicast.wire import register

MOST_IN_DATAGRAM = 30
"""Peers of an exchange that fit a datagram, with long names."""

MOST_PEERS = 1000
"""The largest view there can be."""


@register(80)
class ViewExchange(Message):
    """Membership: the sender's view, and whether it wants the receiver's in return."""

    sender: Peer
    view: Annotated[tuple[Peer, ...], Meta(max_length=MOST_PEERS)]
    wants_answer: bool
