"""What Scamp nodes say to each other, all of it in datagrams. Type ids 256 to 263."""

from epicast.core import Message, Peer
from epicast.core.ranges import Seq
from epicast.wire import register


@register(256)
class Subscription(Message):
    """To a member: take me in. It walks `walk` more hops first."""

    subscriber: Peer
    walk: Seq
    newcomer: bool
    """Whether the subscriber knows nobody yet."""


@register(257)
class Forwarded(Message):
    """A copy of a subscription, looking for somebody who keeps it."""

    subscriber: Peer
    forwards: Seq


@register(258)
class Kept(Message):
    """To the subscriber: you are in my view."""


@register(259)
class Replace(Message):
    """From a leaver: put another in my place, or nobody."""

    replacement: Peer | None


@register(260)
class Forgotten(Message):
    """You are no longer in my view."""


@register(261)
class Heartbeat(Message):
    """You are in my view, and I am alive."""


@register(262)
class Welcome(Message):
    """To a newcomer: I have passed your subscription on; begin your view with me."""

    member: Peer
