"""What HyParView nodes say to each other, all of it on the CONTROL channel."""

from epicast.core import Message, Peer
from epicast.core.ranges import Nanoseconds, Seq
from epicast.wire import register


@register(16)
class Join(Message):
    """To a contact: take me in."""

    joiner: Peer


@register(17)
class Welcome(Message):
    """To a joiner: you are in my active view; `peers` are a start for your passive view."""

    sender: Peer
    peers: tuple[Peer, ...]


@register(18)
class ForwardJoin(Message):
    """A random walk that looks for another neighbour for the joiner; `ttl` hops are left."""

    joiner: Peer
    ttl: Seq


@register(19)
class Neighbor(Message):
    """A request to become neighbours; one of high priority may not be refused."""

    requester: Peer
    high_priority: bool


@register(20)
class NeighborReply(Message):
    """The answer to `Neighbor`: accepted means that the sender holds the requester as neighbour."""

    accepted: bool


@register(21)
class Disconnect(Message):
    """You are not (any more) in my active view; `leaving`: nor will I be of use in your passive."""

    leaving: bool


@register(22)
class Shuffle(Message):
    """A random walk that carries a part of the origin's views; `ttl` hops are left."""

    origin: Peer
    ttl: Seq
    peers: tuple[Peer, ...]


@register(23)
class ShuffleReply(Message):
    """From where a `Shuffle` ended to its origin: a part of the passive view in exchange."""

    peers: tuple[Peer, ...]


@register(24)
class KeepAlive(Message):
    """Are you there? `sent_at` is the sender's clock, which only the sender reads."""

    sent_at: Nanoseconds


@register(25)
class KeepAliveReply(Message):
    sent_at: Nanoseconds
    """As it came in `KeepAlive`: the sender of that one learns the round-trip time."""
