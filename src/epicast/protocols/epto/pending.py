"""What is known and not delivered yet, and how sure its place in the order is."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import NodeId
from epicast.protocols.epto.early import EarlyOrder
from epicast.protocols.epto.entries import MAX_SOURCE
from epicast.protocols.epto.store import EventStore


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
    """The probability that this is their final place: the share of the events of that age whose
    place was, among those watched here. Watched is from the first time that somebody asks for this
    or for early delivery; until then, and for a while after, nothing is known and it is low."""


def pending(store: EventStore, early: EarlyOrder) -> list[Pending]:
    """In the order they would be delivered in."""
    ids, born = store.waiting()
    ttls = store.round - 1 - born
    return [
        Pending(source % MAX_SOURCE, first, first + (extent >> 32) - 1, time, max(0, ttl), stable)
        for (time, source, first, extent), ttl, stable in zip(
            ids.tolist(), ttls.tolist(), early.likely(len(ids)), strict=True
        )
    ]
