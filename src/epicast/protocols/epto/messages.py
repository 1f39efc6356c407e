"""What nodes of an ordered topic say to each other."""

from epicast.core import Message
from epicast.wire import register


@register(160)
class Ball(Message):
    """The events a node has heard of since its last round, and what it knows besides."""

    entries: int
    columns: bytes
    """See `kernels`. Where it is made it is a view of memory that nobody changes any more."""
    wall: int
    """The sender's clock: wall-clock time, or its counter where time is logical, which is the
    largest timestamp it knows of. 0: it does not say, being about to join, or of a version that did
    not where time is logical."""
    published: int
    """The number of the last event the sender has published, and its timestamp."""
    published_at: int
    latency: int
    """In nanoseconds, as the sender measures it; 0: it does not."""
    epoch: int
    minima: bytes
    """See `SizeEstimate`; empty where the size is given."""
    size: int
    first_at: int = 0
    """The timestamp of the first event the sender has published; 0: there is none, or it does not
    say. Who began before that is owed all its events, from number 1 on."""


@register(161)
class Probe(Message):
    """Say so when this arrives: it is how latency is measured."""

    number: int


@register(162)
class ProbeAnswer(Message):
    number: int
