"""Garbage collection: a function of the stream's events in order, and of nothing else.

An event is collected by any later event that matches it, provided the match is *final*: what the
collected event had collected itself must be matched too. That is so if

* the collected event collects nothing: a DATA event, without a key or without `latest_per_key`;
* it is a DATA event with a key under `latest_per_key`, and the predicate matches with it all older
  events of its key: a newer event of the key, or a predicate made of key tests and `seq <`;
* it is a GC event, and the predicate is equal to its own, or is `seq < n` with n above it.

(What `last_n` collects is collected again by every later event, so nothing special is needed.)

What is collected does not depend on the order in which matches are found, on the batches events
came in, or on events that another history collected earlier: a history fed by reads from another
one ends up with the same live events. `tests/log/reference.py` says all this in a few plain lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from epicast.core import EventKind
from epicast.log.chains import KeyChains
from epicast.log.deferred import Deferred
from epicast.log.errors import LogError
from epicast.log.gc_events import GcEvent, GcEvents
from epicast.log.keys import MOST_ROWS, KeyTable
from epicast.log.live import LiveSet
from epicast.log.policy import GcPolicy
from epicast.log.predicate import Plan, key_in, matches, plan
from epicast.log.rows import Rows

Scan = Callable[[int, int], Iterator[Rows]]
"""The stored rows of the events between two numbers; collected ones may be among them."""


class Collector:
    def __init__(self, policy: GcPolicy, scan: Scan) -> None:
        from epicast.log.kernels import latest, rows

        self._kernels: Any = latest
        self._record_columns: int = rows.RECORD_COLUMNS
        self._notes = np.empty(latest.NOTES_WORDS, dtype=np.uint64)
        self.policy = policy
        self.live = LiveSet()
        self._scan = scan
        self._latest = KeyTable(self.live.contains) if policy.latest_per_key else None
        self._chains: KeyChains | None = None
        self._gc_events = GcEvents(self.live.contains)
        self._deferred: Deferred | None = None
        self._end = 0
        self._untidied = 0

    @property
    def keys(self) -> int:
        """Keys in the index."""
        return len(self._latest) if self._latest is not None else 0

    @property
    def memory_bytes(self) -> int:
        parts = (self.live, self._latest, self._chains)
        return sum(part.memory_bytes for part in parts if part is not None)

    def take(self, rows: Rows, end: int, gc_events: Sequence[GcEvent]) -> None:
        """Rows that were stored just now; the history ends at `end` with them."""
        self._end = end
        if self._latest is not None:
            self._take_latest(self._latest, rows)
        else:
            self._insert(rows)
            if self._chains is not None:
                self._chains.add(rows.load())
        for event in gc_events:
            self._apply(event)
            self._gc_events.add(event)
        if self.policy.last_n is not None:
            self.live.remove_below(end - self.policy.last_n + 1)
        self._untidied += rows.count
        if self._untidied >= 1 << 16:
            self._untidied = 0
            self.live.tidy()

    def forget_below(self, start: int) -> None:
        """Retention dropped everything below `start`."""
        self.live.remove_below(start)

    def defer(self) -> None:
        """From now on put off what needs a look at all of history; `catch_up` makes good for it."""
        self._deferred = Deferred(self.policy)

    def catch_up(self, end: int) -> None:
        """Do what was put off. If history cannot be read, it stays put off."""
        if self._deferred:
            for rows in self._scan(1, end):
                self.live.remove(self._deferred.collected(rows))
        self._deferred = None

    @property
    def is_behind(self) -> bool:
        """Whether something was put off: it is given out until `catch_up`, collected or not."""
        return bool(self._deferred)

    def _insert(self, rows: Rows) -> None:
        if rows.is_dense:
            self.live.insert_range(rows.first, rows.last)
        else:
            self.live.insert(rows.load().seqs)

    def _take_latest(self, latest: KeyTable, rows: Rows) -> None:
        if rows.is_dense and not rows.gc_rows and rows.longest_batch <= MOST_ROWS:
            self._take_stored(latest, rows)
            return
        self._insert(rows)
        rows.load()
        if rows.gc_rows:
            rows = rows.where(rows.kinds == EventKind.DATA)
        self.live.remove(latest.exchange(rows, rows.seqs))

    def _take_stored(self, latest: KeyTable, rows: Rows) -> None:
        """The same for batches that hold nothing special, without a look at single rows."""
        self.live.make_room(rows.first, rows.last)
        width = self._record_columns
        for low, high, count in _in_parts(rows):
            latest.make_room(count, rows.longest_key)
            self._kernels.take_latest(
                rows.buffer, rows.records[width * low : width * high], self._notes,
                *latest.columns, *self.live.columns,
            )  # fmt: skip

    def _apply(self, event: GcEvent) -> None:
        todo = plan(event.predicate)
        bound = event.seq if todo.seq_below is None else min(event.seq, todo.seq_below)
        if todo.is_seq_below:
            self.live.remove_below(bound)
            return
        self.live.remove(self._gc_events.collected_by(event))
        if self._latest is not None:
            self._apply_to_latest(self._latest, event, todo, bound)
        else:
            self._apply_to_all(event, todo, bound)

    def _apply_to_latest(self, latest: KeyTable, event: GcEvent, todo: Plan, bound: int) -> None:
        if not has_exact_keys(todo):
            self._search(event, bound)
        elif todo.is_closed:
            candidates = Rows.of_keys(todo.keys or ())
            candidates.seqs = latest.find(candidates)
            wanted = matches(event.predicate, candidates) & (candidates.seqs < np.uint64(bound))
            self.live.remove(self._gc_events.without(candidates.seqs[wanted]))
        if event.key and event.predicate == key_in([event.key]):
            # It collects what a DATA event with its key would, and is collected by the next one.
            newest = int(latest.get([event.key])[0])
            if newest > event.seq:
                self.live.remove(np.array([event.seq], dtype=np.uint64))
            else:
                latest.put(event.key, event.seq)

    def _apply_to_all(self, event: GcEvent, todo: Plan, bound: int) -> None:
        chains = self._key_chains() if has_exact_keys(todo) else None
        if chains is None:
            self._search(event, bound)
            return
        found = chains.below(todo.keys or (), bound, cut=todo.is_keys)
        wanted = matches(event.predicate, found)
        self.live.remove(found.seqs[wanted])

    def _key_chains(self) -> KeyChains | None:
        """Made when they are needed first; None while history need not, or cannot, be read."""
        if self._chains is None and self._deferred is None:
            chains = KeyChains(self.live.contains)
            try:
                for rows in self._scan(1, self._end):
                    self.live.keep(rows)
                    chains.add(rows)
            except (LogError, OSError):
                return None
            self._chains = chains
        return self._chains

    def _search(self, event: GcEvent, bound: int) -> None:
        """Look at everything, now or, if that was asked for or fails, once for all such events. The
        event is stored already: that history cannot be read is no reason to refuse it."""
        if self._deferred is not None:
            self._deferred.add(event)
            return
        search = Deferred(self.policy)
        search.add(event)
        try:
            for rows in self._scan(1, bound - 1):
                self.live.remove(search.collected(rows))
        except (LogError, OSError):
            self._deferred = search


def has_exact_keys(todo: Plan) -> bool:
    """Whether an index of keys can find all candidates. Events without a key are in none."""
    return todo.keys is not None and b"" not in todo.keys


def _in_parts(rows: Rows) -> Iterator[tuple[int, int, int]]:
    """Runs of batches, from one to before another, and how many rows they have: not too many."""
    if rows.count <= MOST_ROWS:
        yield 0, len(rows.record_table()), rows.count
        return
    starts = [*rows.record_table()[:, 1].tolist(), rows.count]
    low = 0
    for high in range(1, len(starts)):
        if high + 1 == len(starts) or starts[high + 1] - starts[low] > MOST_ROWS:
            yield low, high, starts[high] - starts[low]
            low = high
