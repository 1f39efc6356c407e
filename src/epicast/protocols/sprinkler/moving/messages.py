"""What is said about who owns a stream. Type ids 90 to 93."""

from __future__ import annotations

from enum import IntEnum

from epicast.core import Message
from epicast.core.ranges import Epoch, Id, Seq
from epicast.protocols.sprinkler.moving.tenure import Tenure
from epicast.wire import register


@register(90, datagrams=False)
class Ownerships(Message):
    """Between proxies: of all streams that were ever moved, who owns them as far as is known. Said
    when two meet, when there is news, and now and then."""

    tenures: tuple[Tenure, ...]


@register(91, datagrams=False)
class MoveRequest(Message):
    """By people's tools. To the owner: give a stream away. With `force`, to the region that is to
    have it: take it, whatever the owner has done."""

    stream: Id
    region: str
    """That is to have it."""
    force: bool


class MoveOutcome(IntEnum):
    DONE = 0
    GIVEN = 1
    """It was given away, but who is to have it has not said yet that it has begun."""
    REFUSED = 2
    """Nothing was changed."""
    ELSEWHERE = 3
    """Somebody else has to be asked; nothing was changed."""


@register(92, datagrams=False)
class MoveReply(Message):
    """What has become of a request."""

    stream: Id
    outcome: MoveOutcome
    detail: str
    """In a sentence, if it is not done."""
    epoch: Epoch = 0
    """Where the new owner begins: in this epoch, behind this number."""
    seq: Seq = 0


@register(93, datagrams=False)
class AcceptLoss(Message):
    """By people's tools: that events of a stream were lost here is known, and no alarm any more."""

    stream: Id
