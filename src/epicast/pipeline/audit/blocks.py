"""What the owner logged of one block of a stream, ready to be asked about ranges of it.

Numbers are counted from the start of the block here: 0 is its first.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epicast.evidence import event_hashes
from epicast.log.rows import Rows, as_bytes
from epicast.pipeline.audit.claims import Claims
from epicast.pipeline.audit.completeness import NEVER
from epicast.pipeline.audit.cutting import LATER, LINKS, OWNED, Part
from epicast.pipeline.audit.intervals import Ranges, numbers_in
from epicast.pipeline.audit.packing import unpack


class Block:
    def __init__(self, number: int, bits: int, pieces: Iterable[tuple[int, int, bytes]]) -> None:
        """`pieces` are those of the owner: part, log and payload."""
        self.first = (number << bits) + 1
        parts = list(pieces)
        owned = [(log, unpack(load, *OWNED)) for part, log, load in parts if part == Part.OWNED]
        last = max((int(each[0][0]) + len(each[1]) for _, each in owned), default=self.first)
        self.size = last - self.first
        claims = Claims(self.size)
        self.known, self.contents, self.times = claims.known, claims.contents, claims.times
        self.next: NDArray[np.int64] | None = None
        """The number, in the stream, of the next event with the same key; 0 if there is none."""
        self.next_times: NDArray[np.int64] | None = None
        self._key_parts: list[tuple[int, tuple[NDArray[Any], ...]]] = []
        for log, each in owned:
            self._take(claims, log, *each)
        self.disputes = claims.settle()
        """Numbers that logs have different events for."""
        self._look_up_next_times()
        self.later_times: NDArray[np.int64] | None = None
        for part, _, payload in parts:
            if part == Part.LINKS:
                self._take_links(*unpack(payload, *LINKS))
            elif part == Part.LATER:
                self._take_later(*unpack(payload, *LATER))

    def _take(
        self, claims: Claims, log: int, first: NDArray[np.int64], contents: NDArray[np.uint64],
        lengths: NDArray[np.uint32], times: NDArray[np.int64], distance: NDArray[np.uint32],
        *keys: NDArray[Any],
    ) -> None:  # fmt: skip
        begin = int(first[0]) - self.first
        here = slice(begin, begin + len(contents))
        claims.take(log, here, contents, np.repeat(times, lengths))
        if len(distance):
            if self.next is None:
                self.next = np.zeros(self.size, dtype=np.int64)
            seqs = np.arange(int(first[0]), int(first[0]) + len(contents))
            self.next[here] = np.where(distance > 0, seqs + distance, self.next[here])
        if len(keys[1]):
            self._key_parts.append((begin, keys))

    def _look_up_next_times(self) -> None:
        if self.next is None:
            return
        self.next_times = np.full(self.size, NEVER)
        at = np.flatnonzero(self.next)
        self.next_times[at] = self.times[self.next[at] - self.first]

    def _take_links(
        self, seqs: NDArray[np.int64], nexts: NDArray[np.int64], times: NDArray[np.int64]
    ) -> None:
        assert self.next is not None and self.next_times is not None
        # What a stretch of another log has in one piece is known already, and when it was stored.
        unknown = self.next[seqs - self.first] == 0
        at = seqs[unknown] - self.first
        self.next[at] = nexts[unknown]
        self.next_times[at] = times[unknown]

    def _take_later(
        self, first: NDArray[np.int64], last: NDArray[np.int64], times: NDArray[np.int64]
    ) -> None:
        if self.later_times is None:
            self.later_times = np.full(self.size, NEVER)
        at, index = numbers_in(Ranges(first - self.first, last - self.first))
        known = at < self.size
        at = at[known]
        self.later_times[at] = np.minimum(self.later_times[at], times[index[known]])

    @cached_property
    def known_before(self) -> NDArray[np.int64]:
        """How many numbers before each are known; one entry more than there are numbers."""
        return np.concatenate([[0], np.cumsum(self.known, dtype=np.int64)])

    @cached_property
    def hashed_before(self) -> NDArray[np.uint64]:
        """The sum of the event hashes before each."""
        seqs = np.arange(self.first, self.first + self.size).astype(np.uint64)
        hashes = np.where(self.known, event_hashes(self.contents, seqs), np.uint64(0))
        return np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])

    @cached_property
    def run_of(self) -> NDArray[np.int32]:
        """Events stored at the same time, one after the other, are a run."""
        changes = np.diff(self.times, prepend=self.times[:1]) != 0
        return np.cumsum(changes, dtype=np.int32)

    @cached_property
    def run_starts(self) -> NDArray[np.int64]:
        """Of each run, and the end of the last."""
        changes = np.diff(self.run_of, prepend=-1) != 0
        return np.append(np.flatnonzero(changes), self.size)

    @cached_property
    def bounds_of_times(self) -> tuple[int, int]:
        times = self.times[self.known]
        return (int(times.min()), int(times.max())) if len(times) else (NEVER, -1)

    def count_known(self, first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many numbers of each range, cut to the block, the owner knows."""
        before = self.known_before
        low = np.clip(first, 0, self.size)
        high = np.clip(last + 1, 0, self.size)
        return before[np.maximum(low, high)] - before[low]

    def rows_at(self, at: NDArray[np.int64]) -> Rows:
        """Some events as predicates want to see them."""
        keys, key_at, key_bytes, sizes = self._keys
        rows = Rows.empty()
        rows.count = len(at)
        rows.buffer = keys
        rows.seqs = (at + self.first).astype(np.uint64)
        rows.key_at, rows.key_bytes = key_at[at], key_bytes[at]
        rows.sizes, rows.times = sizes[at], self.times[at]
        return rows

    @cached_property
    def _keys(self) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64],
                             NDArray[np.int64]]:  # fmt: skip
        key_at, key_bytes, sizes = (np.zeros(self.size, dtype=np.int64) for _ in range(3))
        joined = b"".join(keys.tobytes() for _, (keys, _, _) in self._key_parts)
        held = 0
        for begin, (keys, lengths, payloads) in self._key_parts:
            here = slice(begin, begin + len(lengths))
            key_bytes[here], sizes[here] = lengths, payloads
            key_at[here] = held + np.cumsum(lengths, dtype=np.int64) - lengths
            held += len(keys)
        return as_bytes(joined), key_at, key_bytes, sizes
