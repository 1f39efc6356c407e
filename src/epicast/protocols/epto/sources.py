"""How far each publisher was delivered: what tells a hole from a repetition."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from epicast.core import NodeId
from epicast.protocols.epto.entries import gaps_of, signed
from epicast.protocols.epto.store import EventStore

_FEW = 64
Gaps = list[tuple[int, int, int]]
"""Source, first and last number of events that will not be delivered here."""


class Missing(Struct, frozen=True, gc=False):
    """A hole in the order: these events of a publisher will not be delivered here."""

    source: NodeId
    first: int
    last: int


class Sources:
    """The last number of each publisher that was delivered, or given up.

    A publisher numbers its events one by one and stamps them in ascending order, so at most one
    number per publisher is needed where the paper keeps the set of all events delivered. Of more
    than `max_sources` publishers the half that was quiet for longest is forgotten; the next event
    of such a one is taken for its first.
    """

    __slots__ = ("_k", "_max", "_table", "_used", "forgotten", "start")

    def __init__(self, max_sources: int) -> None:
        from epicast.protocols.epto import source_kernels

        self._k: Any = source_kernels
        self._max = max_sources
        self._table = np.zeros((_FEW, 3), dtype=np.int64)
        self._used = np.zeros(1, dtype=np.int64)
        self.forgotten = 0
        self.start = -1
        """The timestamp after which events are delivered: earlier ones are not missed."""

    def __len__(self) -> int:
        return int(self._used[0])

    def delivered(self, store: EventStore, low: int, high: int) -> Gaps:
        """Entries low..high-1 of the store are; what is missing before them."""
        self._make_room(high - low)
        gaps = np.empty((high - low, 3), dtype=np.int64)
        found = self._k.note(
            low, high, store.columns(0, high), self._table, self._used, store.round, self.start,
            gaps,
        )  # fmt: skip
        return gaps_of(gaps[:found]) if found else []

    def came_late(self, store: EventStore, places: Any) -> Gaps:
        """Entries that the order has passed: those of them that were not delivered."""
        self._make_room(len(places))
        gaps = np.empty((len(places), 3), dtype=np.int64)
        found = self._k.note_late(
            places, store.columns(0, store.entries), self._table, self._used, store.round,
            self.start, gaps,
        )  # fmt: skip
        return gaps_of(gaps[:found]) if found else []

    def passed(self, source: int, number: int, time: int, round_number: int) -> Gaps:
        """The order has passed the event `number` of a publisher, stamped `time`: what of it was
        not delivered. Of one never heard of before, that is this event at least."""
        self._make_room(1)
        slot = self._slot(signed(source))
        known = self._table.item(slot, 1) - 1
        if number <= known:
            return []
        if known < 0:
            self._used[0] += 1
            known = number - 1
        self._table[slot] = signed(source), number + 1, round_number
        return [(source, known + 1, number)] if time > self.start else []

    def last_of(self, source: int) -> int:
        """The last number of a publisher that was delivered or given up, 0 if there is none."""
        return max(0, self._table.item(self._slot(signed(source)), 1) - 1)

    def _slot(self, source: int) -> int:
        keys, used = self._table[:, 0], self._table[:, 1]
        mask = len(keys) - 1
        slot = self._k.slot_of(source, mask)
        while used[slot] and keys[slot] != source:
            slot = slot + 1 & mask
        return int(slot)

    def _make_room(self, more: int) -> None:
        size = len(self._table)
        if 2 * (len(self) + more) <= size:
            return
        kept = self._table[self._table[:, 1] > 0]
        if len(kept) >= self._max:
            order = np.argsort(-kept[:, 2], kind="stable")[: self._max // 2]
            self.forgotten += len(kept) - len(order)
            kept = kept[order]
        while size < 2 * (len(kept) + more):
            size *= 2
        self._table = np.zeros((size, 3), dtype=np.int64)
        self._k.put_back(kept, self._table)
        self._used[0] = len(kept)
