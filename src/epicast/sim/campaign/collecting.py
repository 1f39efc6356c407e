"""Garbage collection said once more, plainly: which event is collected by which, and when.

Independent of `epicast.log`: one event after the other, one list. Only the form of predicates is
taken from there, not what they mean.
"""

from __future__ import annotations

import numpy as np

from epicast.core import EventKind
from epicast.log import GcPolicy, Predicate, split_gc_payload
from epicast.log.predicate.ast import KeyIn, KeyPrefix, SeqBelow
from epicast.sim.campaign.columns import EventColumns, Growing, Numbers

ALIVE = 1 << 62


class Collected:
    """By number, the first event that collects it; `ALIVE` if none does yet."""

    def __init__(self, policy: GcPolicy, columns: EventColumns) -> None:
        self._policy = policy
        self._columns = columns
        self._by = Growing()
        self._newest: dict[bytes, int] = {}
        """Under `latest_per_key`: the newest event of each key."""
        self._removals: dict[bytes, list[int]] = {}
        """GC events that have a key and collect just that: the next event of the key collects them
        in turn, since it collects all they did."""
        self._predicates: dict[int, Predicate] = {}
        """Of the GC events."""

    @property
    def by(self) -> Numbers:
        """Entry 0 is event 1."""
        return self._by.all

    def take_new(self) -> None:
        """The columns have grown."""
        first, last = self._by.size + 1, self._columns.rows
        self._by.extend(np.full(last + 1 - first, ALIVE))
        kinds = self._columns.kinds.all[first - 1 :]
        if self._policy.latest_per_key or kinds.any():
            keys = self._columns.keys(first - 1)
            for seq, key, kind in zip(range(first, last + 1), keys, kinds.tolist(), strict=True):
                self._take(seq, key, kind)
        if self._policy.last_n is not None:
            # Each is collected by the event `last_n` behind it, which has just come.
            last_n = self._policy.last_n
            low, high = max(0, first - 1 - last_n), max(0, last - last_n)
            part = self.by[low:high]
            np.minimum(part, np.arange(low + 1, high + 1) + last_n, out=part)

    def _take(self, seq: int, key: bytes, kind: int) -> None:
        by = self.by
        if kind == EventKind.GC:
            own, _ = split_gc_payload(self._columns.payload(seq - 1))
            for index in (by[: seq - 1] == ALIVE).nonzero()[0].tolist():
                if self._collects(own, index + 1):
                    by[index] = seq
            self._predicates[seq] = own
            if key and own == KeyIn((key,)):
                self._removals.setdefault(key, []).append(seq)
        if self._policy.latest_per_key and key and kind == EventKind.DATA:
            before = self._newest.get(key)
            if before is not None and by[before - 1] == ALIVE:
                by[before - 1] = seq
            self._newest[key] = seq
            for removal in self._removals.pop(key, ()):
                by[removal - 1] = min(by[removal - 1], seq)

    def _collects(self, own: Predicate, seq: int) -> bool:
        """Final: what the collected event has collected must be matched as well."""
        if not _matches(own, seq, self._columns.key(seq - 1)):
            return False
        theirs = self._predicates.get(seq)
        if theirs is not None:
            return isinstance(own, SeqBelow) or own == theirs
        return True  # all predicates that are drawn match older events of a key with newer ones


def _matches(own: Predicate, seq: int, key: bytes) -> bool:
    match own:
        case SeqBelow(bound):
            return seq < bound
        case KeyIn(keys):
            return key in keys
        case KeyPrefix(prefix):
            return key.startswith(prefix)
    raise ValueError(f"nobody draws such a predicate: {own}")
