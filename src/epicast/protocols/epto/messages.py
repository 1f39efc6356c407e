"""What nodes of an ordered topic say to each other."""

from epicast.core import Message
from epicast.wire import register


@register(160)
class Ball(Message):
    """The events a node has heard of since its last round, and what it knows besides."""

    entries: int
    columns: bytes
    """See `kernels`."""
    wall: int
    """The sender's clock, 0 where time is logical."""
    published: int
    """The number of the last event the sender has published, and its timestamp."""
    published_at: int
    latency: int
    """In nanoseconds, as the sender measures it; 0: it does not."""
    epoch: int
    minima: bytes
    """See `SizeEstimate`; empty where the size is given."""
    size: int


@register(161)
class Probe(Message):
    """Say so when this arrives: it is how latency is measured."""

    number: int


@register(162)
class ProbeAnswer(Message):
    number: int
