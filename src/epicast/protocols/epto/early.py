"""Early delivery: events before their place in the order is certain, and what became of it.

A reader is given a prefix of what is waiting: it goes on up to the first entry that is less likely
to stay in its place than the reader wants (`Stability`). What is waiting never vanishes, it is only
delivered, or moved back by something new before it. So all there is to know about a reader is how
much of what is waiting it has: what comes in before the end of that takes back the rest, and what
is delivered is confirmed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from epicast.core import ConfigError, Effects, EventBatch
from epicast.protocols.epto.clocks import Clock, Ints
from epicast.protocols.epto.layout import MAX_BATCH_EVENTS
from epicast.protocols.epto.stability import Stability
from epicast.protocols.epto.store import EventStore


class EarlyStep(Struct, frozen=True):
    """What a round changes for a reader, in this order: of the events it was given last, so many
    are taken back; these are given; of those not confirmed, so many are, oldest first."""

    reader: int
    revised: int
    batch: EventBatch | None
    """Numbered by their places in this node's order."""
    confirmed: int


class EarlyReader:
    """Made by `EarlyOrder.add`."""

    __slots__ = ("_events", "_shown", "number", "probability")

    def __init__(self, number: int, probability: float) -> None:
        self.number = number
        self.probability = probability
        self.restart()

    def restart(self) -> None:
        """Take all that was given and not confirmed for not given: it comes again."""
        self._shown = self._events = 0
        """Entries, and their events."""

    def take_back(self) -> EarlyStep | None:
        """All that was given and not confirmed."""
        revised = self._events
        self.restart()
        return EarlyStep(self.number, revised, None, 0) if revised else None

    def step(self, now: _Round) -> EarlyStep | None:
        revised = 0
        shown = self._shown
        if now.first_new < shown:
            shown = now.first_new
            kept = int(now.events[shown])
            revised, self._events = self._events - kept, kept
        until = max(shown, now.delivered)
        most = now.events[until] + MAX_BATCH_EVENTS
        likely = now.likely[until:] >= self.probability
        until += _leading(likely & (now.events[until + 1 :] <= most))
        batch = now.batch(shown, until, self._events) if until > shown else None
        confirmed = int(now.events[now.delivered])
        self._shown = until - now.delivered
        self._events = int(now.events[until]) - confirmed
        if revised or batch is not None or confirmed:
            return EarlyStep(self.number, revised, batch, confirmed)
        return None


class _Round:
    """What is waiting in a round, what of it is new and what is delivered."""

    __slots__ = ("_low", "_position", "_store", "delivered", "events", "first_new", "likely")

    def __init__(
        self, store: EventStore, ids: Ints, first_new: int, low: int, high: int, position: int
    ) -> None:
        self._store, self._low, self._position = store, low, position
        self.first_new = first_new
        self.delivered = high - low
        self.events = np.concatenate(([0], np.cumsum(ids[:, 3] >> 32)))
        """Those before each entry, and all."""
        self.likely: Any = None

    def batch(self, begin: int, end: int, given: int) -> EventBatch:
        low = self._low
        return self._store.batch(low + begin, low + end, self._position + given + 1)


class EarlyOrder:
    """The readers of a node, and what it knows about the stability of what is waiting."""

    __slots__ = ("_ages", "_asked", "_before", "_histories", "_k", "_next", "_readers",
                 "_stability", "given", "revised")  # fmt: skip

    def __init__(self) -> None:
        from epicast.protocols.epto import round_kernels

        self._k: Any = round_kernels
        self._readers: dict[int, EarlyReader] = {}
        self._next = 1
        self._asked = False
        self._stability = Stability()
        self.given = self.revised = 0
        """Events given to readers, and taken back."""
        self._forget()

    def _forget(self) -> None:
        self._before: Ints = np.zeros((0, 2), dtype=np.int64)
        self._ages: Ints = np.zeros(0, dtype=np.int64)
        self._histories: Ints = np.zeros((0, 3), dtype=np.int64)

    def add(self, probability: float) -> EarlyReader:
        """Somebody wants events when they are as likely to stay in their places as this; what it is
        given is told by notices."""
        check_probability(probability)
        reader = EarlyReader(self._next, probability)
        self._readers[reader.number] = reader
        self._next += 1
        return reader

    def remove(self, reader: EarlyReader) -> None:
        self._readers.pop(reader.number, None)

    def likely(self, waiting: int) -> list[float]:
        """How likely each of the waiting entries is to stay in its place; 0 until enough was seen
        since this was asked first."""
        self._asked = True
        if len(self._ages) != waiting:
            return [0.0] * waiting
        likely: list[float] = self._stability.by_age[self._ages].tolist()
        return likely

    def follow(
        self, store: EventStore, low: int, high: int, position: int, clock: Clock, latest: int,
        fx: Effects,
    ) -> None:  # fmt: skip
        """A round, in which the entries low..high-1 are about to be delivered behind `position`
        events. `latest`: nothing later is likely to be in its place, however old it is."""
        if not (self._asked or self._readers):
            if len(self._ages):
                self._forget()
            return
        ids, born = store.waiting()
        ages = clock.ages(ids[:, 0], store.round - born, latest)
        histories = np.empty((len(ids), 3), dtype=np.int64)
        first_new = self._k.recognise(
            self._before, self._ages, self._histories, ids, ages, histories
        )
        delivered = high - low
        self._stability.learn(histories[:delivered])
        if self._readers:
            now = _Round(store, ids, first_new, low, high, position)
            now.likely = np.where(ids[:, 0] <= latest, self._stability.by_age[ages], 0.0)
            for reader in self._readers.values():
                self._tell(reader.step(now), fx)
        self._before = ids[delivered:, :2].copy()
        self._ages, self._histories = ages[delivered:], histories[delivered:]

    def begin_anew(self, fx: Effects) -> None:
        """What was waiting is waiting no more, and was not delivered."""
        for reader in self._readers.values():
            self._tell(reader.take_back(), fx)
        self._forget()

    def _tell(self, step: EarlyStep | None, fx: Effects) -> None:
        if step is not None:
            self.revised += step.revised
            self.given += 0 if step.batch is None else step.batch.rows
            fx.notice(0, step)


def check_probability(probability: float) -> None:
    if isinstance(probability, bool) or not isinstance(probability, int | float):
        raise ConfigError(f"early: {probability!r} is not a number; give a probability, say 0.99")
    if not 0 < probability < 1:
        raise ConfigError(
            f"early: {probability} is not between 0 and 1; give the probability at which an event "
            "is to be delivered before its place is certain, say 0.99, or leave it out"
        )


def _leading(true: Any) -> int:
    """How many are, up to the first that is not."""
    return len(true) if true.all() else int(true.argmin())
