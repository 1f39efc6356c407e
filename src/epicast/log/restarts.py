"""Rules for writing to a history, and for judging one that was opened again.

Every keeper of histories follows these rules: files, memory and simulated disks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from epicast.core import EpicastError, EventBatch
from epicast.core.effects import BeginEpoch, Write
from epicast.log.config import LogConfig
from epicast.log.history import History
from epicast.log.recovery import RecoveryReport

NOT_TRIED = "an append before it failed"


class Failure(Struct, frozen=True):
    """Why a write of a stream was not carried out, and none of the stream's behind it."""

    reason: str
    stored: int = 0
    """How many of the stream's writes before it were carried out."""


SetAside = Callable[[int, list[str]], None]
"""Told of files that an order has set aside: from which number on, and what they are called."""


def nobody(first: int, names: list[str]) -> None:
    """Where nothing is kept that could be set aside."""


def write(
    history: History, writes: Sequence[Write], on_set_aside: SetAside = nobody
) -> Failure | None:
    """Carry out writes of one stream in order, up to the first that fails. Consecutive batches are
    stored all or none. Only an order to begin an epoch changes the epoch or forgets anything: a
    batch of another epoch than the history's is refused."""
    stored = 0
    try:
        for is_order, group in groupby(writes, lambda each: isinstance(each, BeginEpoch)):
            batches: list[EventBatch] = []
            for each in group:
                if isinstance(each, BeginEpoch):
                    kept = _begin(history, each)
                    if kept:
                        on_set_aside(each.aside, kept)
                    stored += 1
                else:
                    batches.append(each)
            if not is_order:
                history.append_many(batches)
                stored += len(batches)
    except (EpicastError, OSError) as error:
        return Failure(str(error), stored)
    return None


def _begin(history: History, order: BeginEpoch) -> list[str]:
    if not order.keeps:
        return history.reset(order.epoch, order.first, aside=order.aside)
    if order.epoch == history.epoch:
        history.sync()  # begun before, when only the sync failed
    else:
        history.raise_epoch(order.epoch)
    return []


def to_be_told(writes: Sequence[Write]) -> Iterator[Write]:
    """Select, from the failed writes of one stream, those that the protocol is told of: each order
    to begin an epoch, and the first of several consecutive batches."""
    told = False
    for each in writes:
        is_order = isinstance(each, BeginEpoch)
        if is_order or not told:
            yield each
        told = not is_order


class Stops:
    """Where streams stopped because a write failed: what may be written next, and what would leave
    a hole, or revive events that were to be forgotten."""

    def __init__(self) -> None:
        self._batches: dict[int, tuple[int, int]] = {}
        """By stream: epoch and number of the batch that failed."""
        self._orders: dict[int, BeginEpoch] = {}
        """By stream: the order to begin an epoch that failed."""

    def __bool__(self) -> bool:
        return bool(self._batches or self._orders)

    def clear(self) -> None:
        self._batches.clear()
        self._orders.clear()

    def note(self, write: Write) -> None:
        """Note that a write failed, or was not even tried."""
        stream = write.stream
        order, batch = self._orders.get(stream), self._batches.get(stream)
        if isinstance(write, BeginEpoch):
            if write.skips and order is None:
                return
            self._orders[stream] = write.after(order)
            self._batches.pop(stream, None)
        elif order is None and (batch is None or batch[0] != write.epoch or write.first < batch[1]):
            self._batches[stream] = (write.epoch, write.first)

    def passes(self, write: Write) -> bool:
        """Whether a write may be tried; if it begins where the stream stopped, that is over."""
        stream = write.stream
        order, batch = self._orders.get(stream), self._batches.get(stream)
        if isinstance(write, BeginEpoch):
            if order is not None and (
                write.epoch < order.epoch or (write.keeps and not order.keeps)
            ):
                return False
            self._orders.pop(stream, None)
            self._batches.pop(stream, None)
            return True
        if order is not None:
            return False
        if batch is None or write.epoch != batch[0]:
            return True  # nothing failed, or the history will say what is wrong
        if write.first <= batch[1] <= write.last:
            del self._batches[stream]
            return True
        return write.last < batch[1]


def may_have_lost(found: RecoveryReport, config: LogConfig) -> bool:
    """Whether events that others may have seen can be missing."""
    if found.marked:
        return True
    if not found.segments or found.is_complete:
        return False
    if config.sync != "disk":
        return True
    # What was synced is gone if there was more when the history was closed, or if something lies
    # behind the damage; half a batch at the end was on its way to the disk when the power went.
    cut = found.truncation
    return (cut is not None and cut.in_the_midst) or found.closed_at is not None
