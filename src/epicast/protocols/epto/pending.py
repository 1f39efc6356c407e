"""What is known and not delivered yet, and how sure it is that everybody knows it."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import NodeId
from epicast.protocols.epto.entries import MAX_SOURCE
from epicast.protocols.epto.sizing import stability
from epicast.protocols.epto.store import EventStore

_MOST_ROUNDS = 200


class Pending(Struct, frozen=True, gc=False):
    """Events of one publication, in the place they will have unless something comes between."""

    source: NodeId
    first: int
    last: int
    time: int
    """Their timestamp."""
    ttl: int
    """Rounds they are known to be under way."""
    stable: float
    """The probability that every peer has them, by the balls-and-bins model: uniform samples, no
    loss, rounds as long as a message takes."""


def pending(store: EventStore, size: int, fanout: int) -> list[Pending]:
    """In the order they would be delivered in."""
    ids, ttls = store.waiting()
    likely = stability(size, fanout, _MOST_ROUNDS)
    return [
        Pending(
            source % MAX_SOURCE,
            first,
            first + (extent >> 32) - 1,
            time,
            max(0, ttl),
            likely[min(max(0, ttl), _MOST_ROUNDS)],
        )
        for (time, source, first, extent), ttl in zip(ids.tolist(), ttls.tolist(), strict=True)
    ]
