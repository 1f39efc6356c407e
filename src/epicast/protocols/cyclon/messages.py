"""What Cyclon nodes say to each other, all of it in datagrams."""

from msgspec import Struct

from epicast.core import Message, Peer
from epicast.core.ranges import Id, Seq
from epicast.wire import register


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """A neighbour as it travels: `age` in shuffle periods since the peer itself gave it out."""

    peer: Peer
    age: Seq


@register(32)
class ShuffleRequest(Message):
    """Some of the sender's neighbours, and a fresh entry of the sender itself."""

    sender: Peer
    number: Id
    """Tells the answer to this request from late or repeated ones."""
    entries: tuple[Entry, ...]


@register(33)
class ShuffleAnswer(Message):
    """Some of the answerer's neighbours in exchange."""

    number: Id
    entries: tuple[Entry, ...]


@register(34)
class JoinRequest(Message):
    """To a contact: introduce me."""

    joiner: Peer


@register(35)
class JoinWalk(Message):
    """A random walk at whose end the joiner takes somebody's place; `ttl` hops are left."""

    joiner: Peer
    ttl: Seq


@register(36)
class JoinSwap(Message):
    """To the joiner: the entry whose place it has taken."""

    entry: Entry


@register(37)
class Ping(Message):
    """To a neighbour: are you there?"""

    sender: Peer


@register(38)
class Pong(Message):
    """Yes."""
