"""The batch at hand, item by item, and the watermark that follows from it.

Items are handed out by a plain list iterator, which consumers loop over directly: that is what
makes an event cheap. Nothing is written per event; how far the consumer is follows from how many
items the iterator has left and how many of those handed out are still in the consumer's hands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import length_hint

import numpy as np

from epicast.client.events import events_of
from epicast.client.items import Item, Reset, Tombstone, Watermark
from epicast.core import Event, EventBatch


class Reading:
    __slots__ = ("_after", "_before", "_epoch", "_held_back", "_items", "_with_tombstones",
                 "in_hand", "iterator")  # fmt: skip

    def __init__(self, start: Watermark, *, tombstones: bool) -> None:
        self._with_tombstones = tombstones
        self._epoch = start.epoch
        self._before = self._after = start
        self._held_back: Tombstone | None = None
        self._items: Sequence[Item | EventBatch] = ()
        self.iterator: Iterator[Item] = iter(())
        self.in_hand = 0
        """How many of the items handed out last the consumer has not finished with."""

    def load(self, batch: EventBatch | Reset, *, more: bool) -> bool:
        """Go on with what comes next, when the last item was finished; whether there are items.

        `more`: something else is there already, so that a tombstone at the end can wait to be
        merged with what follows.
        """
        held_back, self._held_back = self._held_back, None
        self._before = self._after
        self._after = end_of(batch)
        items: Sequence[Item]
        if isinstance(batch, Reset):
            self._epoch = self._before.epoch
            items = [batch]
            if held_back is not None:
                items = [held_back, batch]
                self._before = Watermark(self._epoch, held_back.last)
        else:
            self._epoch = batch.epoch
            if not batch.tombstones and held_back is None:
                items = events_of(batch)
            else:
                items = self._merged(batch, held_back, more)
        self._items = items
        self.iterator = iter(items)
        self.in_hand = 0
        return bool(items)

    def _merged(self, batch: EventBatch, held_back: Tombstone | None, more: bool) -> list[Item]:
        events = events_of(batch)
        if not self._with_tombstones:
            return list(events)
        # Row i stands behind a gap if its number does not follow that of the row before it.
        seqs = np.concatenate(
            ([np.uint64(batch.first - 1)], batch.seqs, [np.uint64(batch.last + 1)])
        )
        behind_gap = np.flatnonzero(seqs[1:] - seqs[:-1] > 1).tolist()
        items: list[Item] = []
        start = 0
        for row in behind_gap:
            items += events[start:row]
            start = row
            first, last = int(seqs[row]) + 1, int(seqs[row + 1]) - 1
            if held_back is not None and row == 0:
                first, held_back = held_back.first, None
            items.append(Tombstone(batch.stream, first, last))
        items += events[start:]
        if held_back is not None:
            items.insert(0, held_back)
        if more and items and isinstance(newest := items[-1], Tombstone):
            self._held_back = newest
            self._after = Watermark(batch.epoch, newest.first - 1)
            items.pop()
        return items

    def hold(self, batch: EventBatch | Reset) -> None:
        """Hand out a batch as a whole."""
        self._before = self._after
        self._after = end_of(batch)
        self._items = [batch]
        self.iterator = iter(())
        self.in_hand = 1

    @property
    def has_begun(self) -> bool:
        """Whether a batch was begun item by item and not finished."""
        return length_hint(self.iterator) > 0 or self._held_back is not None

    @property
    def watermark(self) -> Watermark:
        """Everything up to here was handed out and finished with."""
        return self._at(len(self._items) - length_hint(self.iterator) - self.in_hand)

    @property
    def handed_out(self) -> Watermark:
        """Everything up to here was handed out."""
        return self._at(len(self._items) - length_hint(self.iterator))

    def _at(self, index: int) -> Watermark:
        """The place right before an item."""
        if index >= len(self._items):
            return self._after
        item = self._items[index]
        if isinstance(item, Event):
            return Watermark(self._epoch, item.seq - 1)
        if isinstance(item, Tombstone):
            return Watermark(self._epoch, item.first - 1)
        return self._before


def end_of(batch: EventBatch | Reset) -> Watermark:
    """Where a stream is behind it."""
    return batch.watermark if isinstance(batch, Reset) else Watermark(batch.epoch, batch.last)
