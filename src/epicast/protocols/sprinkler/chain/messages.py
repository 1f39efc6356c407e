"""What replicas of one region say to each other. Type ids 84 to 88."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import Message
from epicast.protocols.sprinkler.messages import Counter
from epicast.wire import register


@register(84)
class Beat(Message):
    """I am there, and know of this configuration of the chain."""

    incarnation: int
    epoch: int
    ailing: bool = False
    """It cannot store: if others can, they should go on without it."""


class Place(Struct, frozen=True, array_like=True):
    """How far a history is, and who numbered what of it."""

    stream: int
    epoch: int
    end: int
    lineage: tuple[tuple[int, int], ...]
    afresh: bool = False
    """In the answer: what was there is not what the chain has; forget it. In an introduction: it
    may lack what others have seen."""


@register(85)
class Link(Message):
    """To the predecessor, or to the tail by who wants to join: send me what follows. Among members
    that were started again: so far are my histories of the region's own streams."""

    epoch: int
    incarnation: int
    places: tuple[Place, ...]


@register(86)
class Linked(Message):
    """The answer: for each stream where it goes on, in front of the events themselves."""

    epoch: int
    places: tuple[Place, ...]


@register(87)
class Progress(Message):
    """To the predecessor: this is stored here, and this may be shown."""

    epoch: int
    stored: tuple[Counter, ...]
    shown: tuple[Counter, ...]


@register(88)
class Dismissed(Message):
    """To those attached: go to another replica, this one is not in the chain at the moment."""

    reason: str
