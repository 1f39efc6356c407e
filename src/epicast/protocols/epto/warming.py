"""Have everything compiled that an ordered topic may need, so that no round waits for it.

The first time on a machine that takes seconds, in which a node that has joined already would hear
of nobody; afterwards a fraction of a second. Call it before joining, in any thread.
"""

from __future__ import annotations

from functools import cache

from epicast.core import Effects, EventBatch
from epicast.protocols.epto.clocks import LogicalClock
from epicast.protocols.epto.early import EarlyOrder
from epicast.protocols.epto.sources import Sources
from epicast.protocols.epto.store import EventStore

_TTL = 1
_SOURCES = 100
"""Enough for tables to grow."""
_LATEST = 1 << 60


@cache
def warm_up() -> None:
    """Some rounds of a node that talks to itself."""
    store, sources, early = EventStore(1000, 1 << 20), Sources(1000), EarlyOrder()
    early.add(0.5)
    sent: list[tuple[int, bytes]] = []
    for number in range(1, 2 * _TTL + 6):
        for entries, columns in sent:
            store.absorb(columns, entries, 1, _LATEST)
        for source in range(1, _SOURCES):
            store.publish(number, source, EventBatch.build(source, number, [b"x"], keys=[b"k"]))
        store.begin_round(_TTL, 0)
        sources.came_late(store, store.waiting_after(0)[:1])
        sent = store.next_ball(_TTL, 1000, True)
        low, high = store.deliverable(_TTL, _LATEST)
        sources.delivered(store, low, high)
        sources.last_of(1)
        early.follow(store, low, high, 0, LogicalClock(), _LATEST, Effects())
        if low < high:
            store.batch(low, high, 1)
            store.pass_by(high)
        store.end_round(True)
