"""What replicas of one region say to each other. Type ids 84 to 88."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import Message
from epicast.core.ranges import Epoch, Id, Seq
from epicast.protocols.sprinkler.messages import Counter
from epicast.wire import register


@register(84, datagrams=False)
class Beat(Message):
    """I am there, and know of this configuration of the chain."""

    incarnation: Id
    epoch: Seq
    ailing: bool = False
    """It cannot store: if others can, they should go on without it."""


class Place(Struct, frozen=True, array_like=True):
    """How far a history is, and who numbered what of it."""

    stream: Id
    epoch: Epoch
    end: Seq
    lineage: tuple[tuple[int, int], ...]
    afresh: bool = False
    """In the answer: what was there is not what the chain has; forget it."""


@register(85, datagrams=False)
class Link(Message):
    """To the predecessor, or to the tail by who wants to join: send me what follows."""

    epoch: Seq
    incarnation: Id
    places: tuple[Place, ...]


@register(86, datagrams=False)
class Linked(Message):
    """The answer: for each stream where it goes on, in front of the events themselves."""

    epoch: Seq
    places: tuple[Place, ...]


@register(87, datagrams=False)
class Progress(Message):
    """To the predecessor: this is stored here, and this may be shown."""

    epoch: Seq
    stored: tuple[Counter, ...]
    shown: tuple[Counter, ...]


@register(88, datagrams=False)
class Dismissed(Message):
    """To those attached: go to another replica, this one is not in the chain at the moment."""

    reason: str
