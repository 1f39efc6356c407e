"""The GC events of a history that are still there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventKind
from epicast.log.errors import PredicateError
from epicast.log.predicate import Predicate, matches, split_gc_payload
from epicast.log.rows import Rows

_FEW = 64


@dataclass(frozen=True, slots=True)
class GcEvent:
    """A row whose payload carries a predicate, and what predicates can ask about the row."""

    seq: int
    predicate: Predicate
    key: bytes
    time: int
    size: int


def gc_events_in(rows: Rows) -> list[GcEvent]:
    """The GC events among the rows, in order; `PredicateError` if one of them is none."""
    if not rows.gc_rows:
        return []
    found = []
    rows.load()
    for row in np.flatnonzero(rows.kinds).tolist():
        seq = rows.seqs.item(row)
        if rows.kinds.item(row) != EventKind.GC:
            raise PredicateError(0, f"event {seq} to be DATA or GC", str(rows.kinds.item(row)))
        payload = rows.payload(row)
        predicate, _ = split_gc_payload(payload)
        found.append(GcEvent(seq, predicate, rows.key(row), rows.times.item(row), len(payload)))
    return found


class GcEvents:
    """By predicate: only one with an equal predicate, or a `seq <`, may collect a GC event."""

    def __init__(self, is_live: Callable[[NDArray[np.uint64]], NDArray[np.bool_]]) -> None:
        self._is_live = is_live
        self._by_predicate: dict[Predicate, list[GcEvent]] = {}
        self._seqs: set[int] = set()
        self._tidy_at = _FEW

    def add(self, event: GcEvent) -> None:
        if len(self._seqs) >= self._tidy_at:
            self._tidy()
        self._by_predicate.setdefault(event.predicate, []).append(event)
        self._seqs.add(event.seq)

    def collected_by(self, event: GcEvent) -> NDArray[np.uint64]:
        """The older ones that have the same predicate and are matched by it."""
        older = [other for other in self._by_predicate.get(event.predicate, ())
                 if other.seq < event.seq]  # fmt: skip
        rows = rows_of(older)
        return rows.seqs[matches(event.predicate, rows)] if older else rows.seqs

    def without(self, seqs: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Those of the numbers that are not GC events."""
        if not self._seqs:
            return seqs
        return np.array([s for s in seqs.tolist() if s not in self._seqs], dtype=np.uint64)

    def _tidy(self) -> None:
        """Forget those that were collected, so that the rest is as many as there are live."""
        seqs = np.array(sorted(self._seqs), dtype=np.uint64)
        self._seqs = set(seqs[self._is_live(seqs)].tolist())
        kept = {
            predicate: [event for event in events if event.seq in self._seqs]
            for predicate, events in self._by_predicate.items()
        }
        self._by_predicate = {predicate: events for predicate, events in kept.items() if events}
        self._tidy_at = max(_FEW, 2 * len(self._seqs))


def rows_of(events: Iterable[GcEvent]) -> Rows:
    events = list(events)
    rows = Rows.of_keys([event.key for event in events])
    rows.seqs = np.array([event.seq for event in events], dtype=np.uint64)
    rows.times = np.array([event.time for event in events], dtype=np.int64)
    rows.sizes = np.array([event.size for event in events], dtype=np.int64)
    return rows
