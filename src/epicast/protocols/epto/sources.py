"""How far each publisher was delivered: what tells a hole from a repetition."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from epicast.core import NodeId
from epicast.protocols.epto.entries import gaps_of, signed
from epicast.protocols.epto.layout import room_for
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
    number per publisher is needed where the paper keeps the set of all events delivered. Another
    says since when: what was before the first event noticed here is missing only if the publisher
    says that it began after us (`word`). Of more than `max_sources` publishers the half that was
    quiet for longest is forgotten; the next event of such a one is taken for its first.
    """

    __slots__ = ("_gaps", "_k", "_max", "_table", "_used", "_whole", "complete_after", "forgotten",
                 "start")  # fmt: skip

    def __init__(self, max_sources: int) -> None:
        from epicast.protocols.epto import source_kernels

        self._k: Any = source_kernels
        self._max = max_sources
        self._table = np.zeros((_FEW, 4), dtype=np.int64)
        self._used = np.zeros(1, dtype=np.int64)
        self._gaps = np.empty((_FEW, 3), dtype=np.int64)
        """What is missing, while it is looked for."""
        self._whole: set[NodeId] = set()
        """Publishers that have said that they began after us."""
        self.forgotten = 0
        self.start = -1
        """The timestamp after which events are delivered: earlier ones are not missed."""
        self.complete_after = -1
        """Publishers whose first event is later began after us, and were not forgotten since."""

    def __len__(self) -> int:
        return int(self._used[0])

    def delivered(self, store: EventStore, low: int, high: int) -> Gaps:
        """Entries low..high-1 of the store are; what is missing before them."""
        self._make_room(high - low, store)
        found = self._k.note(
            low, high, store.columns(0, high), self._table, self._used, store.round, self.start,
            self._room_for_gaps(high - low),
        )  # fmt: skip
        return gaps_of(self._gaps[:found]) if found else []

    def came_late(self, store: EventStore, places: Any) -> Gaps:
        """Entries that the order has passed: those of them that were not delivered."""
        if not len(places):
            return []
        self._make_room(len(places), store)
        found = self._k.note_late(
            places, store.columns(0, store.entries), self._table, self._used, store.round,
            self.start, self._room_for_gaps(len(places)),
        )  # fmt: skip
        return gaps_of(self._gaps[:found]) if found else []

    def _room_for_gaps(self, count: int) -> Any:
        if count > len(self._gaps):
            self._gaps = np.empty((room_for(count), 3), dtype=np.int64)
        return self._gaps

    def is_news(self, source: int, first_time: int) -> bool:
        """Whether it is the first time that a publisher says it began after us."""
        return first_time > self.complete_after and source not in self._whole

    def word(self, source: int, number: int, time: int, first_time: int, store: EventStore) -> Gaps:
        """A publisher says that its last event is `number`, stamped `time`, and its first was
        stamped `first_time` (0: it does not say). What of it will not be delivered here, if it
        began after us; else, if the order has passed it, what follows the last that was; of one
        never heard of before, its last event at least."""
        self._make_room(1, store)
        slot = self._slot(signed(source))
        _, after, _, since = self._table[slot].tolist()
        known, gaps = after - 1, []
        if first_time > self.complete_after:
            self._whole.add(source)
            if known < 0:
                known = self._put(slot, source, 0, 1, store)
            elif since > 1:
                gaps.append((source, 1, since - 1))
                self._table[slot, 3] = 1
        if number > known and time < store.last[0]:
            first = known + 1 if known >= 0 else number
            if time > self.start:
                gaps.append((source, first, number))
            self._put(slot, source, number, number if known < 0 else 0, store)
        return gaps

    def _put(self, slot: int, source: int, number: int, since: int, store: EventStore) -> int:
        """Returns `number`; `since`, if it is not 0: it is new here."""
        self._used[0] += since > 0
        since = since or self._table.item(slot, 3)
        self._table[slot] = signed(source), number + 1, store.round, since
        return number

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

    def _make_room(self, more: int, store: EventStore) -> None:
        size = len(self._table)
        if 2 * (len(self) + more) <= size:
            return
        kept = self._table[self._table[:, 1] > 0]
        if len(kept) >= self._max:
            order = np.argsort(-kept[:, 2], kind="stable")[: self._max // 2]
            self.forgotten += len(kept) - len(order)
            self.complete_after = store.newest
            self._whole.clear()
            kept = kept[order]
        while size < 2 * (len(kept) + more):
            size *= 2
        self._table = np.zeros((size, 4), dtype=np.int64)
        self._k.put_back(kept, self._table)
        self._used[0] = len(kept)
