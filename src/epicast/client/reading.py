"""The batch at hand, item by item, and the watermark that follows from it.

Items are handed out by a plain list iterator, which consumers loop over directly: that is what
makes an event cheap. Nothing is written per event; how far the consumer is follows from how many
items the iterator has left and how many of those handed out are still in the consumer's hands.

The watermark may be read in any thread, at any moment, while another reads items: it never covers
an item that was not handed out. So what belongs together is replaced as a whole, and an item
counts as being in the consumer's hands before it is taken from the iterator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import length_hint
from typing import NamedTuple

import numpy as np

from epicast.client.events import events_of
from epicast.client.items import Item, Reset, Tombstone, Watermark
from epicast.core import Event, EventBatch


class _Loaded(NamedTuple):
    """The batch at hand."""

    items: Sequence[Item | EventBatch]
    iterator: Iterator[Item]
    """Over those of the items that are handed out one by one."""
    before: Watermark
    """Where the stream is before the first item."""
    after: Watermark
    """Where it is behind the last one."""
    epoch: int
    """The epoch that the items' numbers belong to."""


class Reading:
    __slots__ = ("_held_back", "_loaded", "_with_tombstones", "in_hand", "iterator")

    def __init__(self, start: Watermark, *, tombstones: bool) -> None:
        self._with_tombstones = tombstones
        self._held_back: Tombstone | None = None
        self.in_hand = 0
        """How many of the items handed out last the consumer has not finished with."""
        self._show((), start, start, start.epoch)

    def _show(
        self,
        items: Sequence[Item | EventBatch],
        before: Watermark,
        after: Watermark,
        epoch: int,
    ) -> None:
        self.iterator: Iterator[Item] = iter(items)  # type: ignore[arg-type]
        self._loaded = _Loaded(items, self.iterator, before, after, epoch)

    def load(self, batch: EventBatch | Reset, *, more: bool) -> bool:
        """Go on with what comes next, when the last item was finished; whether there are items.

        `more`: something else is there already, so that a tombstone at the end can wait to be
        merged with what follows.
        """
        self.in_hand = 0
        held_back, self._held_back = self._held_back, None
        before, after = self._loaded.after, end_of(batch)
        items: Sequence[Item]
        if isinstance(batch, Reset):
            epoch = before.epoch
            items = [batch]
            if held_back is not None:
                items = [held_back, batch]
                before = Watermark(epoch, held_back.last)
        else:
            epoch = batch.epoch
            if not batch.tombstones and held_back is None:
                items = events_of(batch)
            else:
                items, self._held_back = self._merged(batch, held_back, more)
                if self._held_back is not None:
                    after = Watermark(epoch, self._held_back.first - 1)
        self._show(items, before, after, epoch)
        return bool(items)

    def _merged(
        self, batch: EventBatch, held_back: Tombstone | None, more: bool
    ) -> tuple[list[Item], Tombstone | None]:
        """The items, and a tombstone at the end that is to wait for what follows."""
        events = events_of(batch)
        if not self._with_tombstones:
            return list(events), None
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
            items.pop()
            return items, newest
        return items, None

    def hold(self, batch: EventBatch | Reset) -> None:
        """Hand out a batch as a whole."""
        self._show([batch], self._loaded.after, end_of(batch), self._loaded.epoch)
        self.in_hand = 1
        next(self.iterator)

    def take(self) -> Item | None:
        """Hand out the next item; None if there is none at hand."""
        self.in_hand = 1
        return next(self.iterator, None)

    def take_some(self, most: int) -> list[Item]:
        """Hand out the next items at hand."""
        self.in_hand = most
        items = list(islice(self.iterator, most))
        self.in_hand = len(items)
        return items

    @property
    def has_begun(self) -> bool:
        """Whether a batch was begun item by item and not finished."""
        return length_hint(self.iterator) > 0 or self._held_back is not None

    @property
    def watermark(self) -> Watermark:
        """Everything up to here was handed out and finished with."""
        return self._at(self.in_hand)

    @property
    def handed_out(self) -> Watermark:
        """Everything up to here was handed out."""
        return self._at(0)

    def _at(self, in_hand: int) -> Watermark:
        """The place right before the items in hand, which were handed out last."""
        items, iterator, before, after, epoch = self._loaded
        index = max(0, len(items) - length_hint(iterator) - in_hand)
        if index >= len(items):
            return after
        item = items[index]
        if isinstance(item, Event):
            return Watermark(epoch, item.seq - 1)
        if isinstance(item, Tombstone):
            return Watermark(epoch, item.first - 1)
        return before


def end_of(batch: EventBatch | Reset) -> Watermark:
    """Where a stream is behind it."""
    return batch.watermark if isinstance(batch, Reset) else Watermark(batch.epoch, batch.last)
