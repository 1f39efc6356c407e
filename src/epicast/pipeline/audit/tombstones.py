"""Whether a tombstone was right: some later event has made what it stands for obsolete.

That event must have been stored when the tombstone was handed out, and the subscription must go on
to cover it. If the subscription ends before that, the tombstone is *pending*: nobody can say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epicast.log.predicate import SeqBelow, matches, plan
from epicast.log.predicate.ast import And, Not, Or, Predicate, PublishedBefore
from epicast.log.predicate.planning import Plan
from epicast.pipeline.audit.blocks import Block
from epicast.pipeline.audit.case import Case, GcEvent
from epicast.pipeline.audit.completeness import NEVER

UNMATCHED, PENDING, MATCHED = 0, 1, 2


class Tombstones(NamedTuple):
    at: NDArray[np.int64]
    """Numbers counted from the start of the block; all of them known to the owner."""
    times: NDArray[np.int64]
    """When they were handed out, tolerance included."""
    reached: int
    """How far the subscription came in the stream."""


class Search:
    """For the tombstones of one block."""

    def __init__(self, block: Block, case: Case, stream: int, epoch: int) -> None:
        self._block = block
        self._tolerance = case.rules.clock_tolerance_ns
        facts = case.streams.get(stream)
        self._last_n = facts.last_n if facts else None
        self._keyed = stream in case.keyed
        self._gc = [event for event in case.gc.get((stream, epoch), []) if event.seq >= block.first]
        self._own = {
            event.seq - block.first: event for event in self._gc
            if event.seq < block.first + block.size
        }  # fmt: skip
        self._plans = [(event, plan(event.predicate)) for event in self._gc]
        self._dropped = case.dropped.get((stream, epoch), [])
        self._bounds = _Bounds(self._gc)

    def judge(self, tombstones: Tombstones) -> NDArray[np.uint8]:
        """One verdict per tombstone."""
        at, times, reached = tombstones
        block = self._block
        verdicts: NDArray[np.uint8] = np.zeros(len(at), dtype=np.uint8)
        if block.next is not None and block.next_times is not None:
            _improve(verdicts, block.next[at], block.next_times[at], times, reached)
        if self._last_n is not None and block.later_times is not None:
            later = at + block.first + self._last_n
            _improve(verdicts, later, block.later_times[at], times, reached)
        for dropped in self._dropped:
            gone = (at + block.first <= dropped.last) & (dropped.time <= times)
            verdicts[gone] = MATCHED
        if self._gc and (verdicts != MATCHED).any():
            self._search_gc(verdicts, tombstones)
        return verdicts

    def _search_gc(self, verdicts: NDArray[np.uint8], tombstones: Tombstones) -> None:
        at, times, reached = tombstones
        seqs, when = self._bounds.first_above(at + self._block.first)
        _improve(verdicts, seqs, when, times, reached)
        is_gc = np.isin(at, list(self._own))
        for event, planned in self._plans:
            if planned.is_seq_below:
                continue
            open_ones = np.flatnonzero(
                (verdicts != MATCHED) & (at + self._block.first < event.seq)
                & ((event.seq <= reached) | (verdicts == UNMATCHED)) & (event.time <= times)
            )  # fmt: skip
            if not len(open_ones):
                continue
            found = open_ones[self._collected(event, planned, at[open_ones], is_gc[open_ones])]
            verdicts[found] = MATCHED if event.seq <= reached else PENDING

    def _collected(
        self, event: GcEvent, planned: Plan, at: NDArray[np.int64], is_gc: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which of some events an event collects: matched, and for good, see `log.collector`."""
        rows = self._block.rows_at(at)
        matched = matches(event.predicate, rows)
        if asks_for_time(event.predicate):
            # An event's own time is a little before that of its row in the log.
            rows.times = rows.times - self._tolerance
            matched |= matches(event.predicate, rows)
        final = np.ones(len(at), dtype=np.bool_)
        if self._keyed and not planned.is_closed:
            final &= rows.key_bytes == 0
        for index in np.flatnonzero(is_gc).tolist():
            final[index] = self._own[int(at[index])].predicate == event.predicate
        return matched & final


class _Bounds:
    """GC events that collect everything below a number: there may be many, one per age."""

    def __init__(self, events: list[GcEvent]) -> None:
        chosen = [
            (event.seq, event.time, min(event.seq, event.predicate.bound))
            for event in events
            if isinstance(event.predicate, SeqBelow)
        ]
        table = np.array(chosen, dtype=np.int64).reshape(-1, 3)
        self._seqs = np.append(table[:, 0], NEVER)
        self._times = np.append(table[:, 1], NEVER)
        self._highest = np.maximum.accumulate(table[:, 2])

    def first_above(self, seqs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first of them that collects each number, and its time; `NEVER` if there is none."""
        at = np.searchsorted(self._highest, seqs, side="right")
        return self._seqs[at], self._times[at]


def _improve(
    verdicts: NDArray[np.uint8], collectors: NDArray[np.int64], stored: NDArray[np.int64],
    times: NDArray[np.int64], reached: int,
) -> None:  # fmt: skip
    """Given the event that collects each, and when it was stored; `NEVER` if there is none."""
    in_time = stored <= times
    found = np.where(in_time, np.where(collectors <= reached, MATCHED, PENDING), UNMATCHED)
    np.maximum(verdicts, found.astype(np.uint8), out=verdicts)


def asks_for_time(predicate: Predicate) -> bool:
    match predicate:
        case PublishedBefore():
            return True
        case Not(child):
            return asks_for_time(child)
        case And(children) | Or(children):
            return any(map(asks_for_time, children))
    return False
