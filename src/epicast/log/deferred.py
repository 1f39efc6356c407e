"""Many predicates against all of history, in one pass over it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventKind
from epicast.log.gc_events import GcEvent
from epicast.log.keys import KeyTable
from epicast.log.policy import GcPolicy
from epicast.log.predicate import Predicate, matches, plan
from epicast.log.rows import Rows


class Deferred:
    """Of equal predicates only the newest counts: it matches whatever the others do.

    Sets of exact keys become one table, so that a million of them cost one look-up per row.
    """

    def __init__(self, policy: GcPolicy) -> None:
        self._policy = policy
        self._newest: dict[Predicate, int] = {}
        self._keys: KeyTable | None = None

    def __bool__(self) -> bool:
        return bool(self._newest) or self._keys is not None

    def add(self, event: GcEvent) -> None:
        """Must be newer than those before."""
        todo = plan(event.predicate)
        if todo.is_keys and b"" not in (todo.keys or ()):
            if self._keys is None:
                self._keys = KeyTable()
            keys = Rows.of_keys(todo.keys or ())
            self._keys.exchange(keys, np.full(keys.count, event.seq, dtype=np.uint64))
        else:
            self._newest[event.predicate] = event.seq

    def collected(self, rows: Rows) -> NDArray[np.uint64]:
        """The rows that are matched finally. GC events are never among them."""
        matched = np.zeros(rows.count, dtype=np.bool_)
        if self._keys is not None:
            matched |= self._keys.find(rows) > rows.seqs
        for predicate, seq in self._newest.items():
            found = matches(predicate, rows) & (rows.seqs < np.uint64(seq))
            if self._policy.latest_per_key and not plan(predicate).is_closed:
                found &= rows.key_bytes == 0
            matched |= found
        matched &= rows.kinds == EventKind.DATA
        return rows.seqs[matched]
