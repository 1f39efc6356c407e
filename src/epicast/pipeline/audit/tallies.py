"""What was counted, and how counts of blocks add up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field, msgpack
from numpy.typing import NDArray

from epicast.pipeline.audit.case import TIME_SLOTS
from epicast.pipeline.audit.staleness import BUCKETS

_EXAMPLES = 5


class Counts(Struct):
    """Of events, except `out_of_order` and `clock`, which are of rows of logs."""

    owed: int = 0
    delivered: int = 0
    tombstoned: int = 0
    pending: int = 0
    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    forged: int = 0
    unmatched: int = 0
    unjudged: int = 0
    clock: int = 0
    acked: int = 0
    acked_but_lost: int = 0
    conflicting: int = 0

    def add(self, other: Counts) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Example(Struct, frozen=True, array_like=True):
    """One place where something is wrong."""

    what: str
    first: int
    last: int


class Tally(Struct):
    """What one subscription, or one publisher, comes to in some blocks."""

    counts: Counts = field(default_factory=Counts)
    oldest_ns: int = 0
    buckets: bytes = b""
    slots: bytes = b""
    examples: list[Example] = []

    def note(self, what: str, first: int, last: int) -> None:
        if sum(example.what == what for example in self.examples) < _EXAMPLES:
            self.examples = [*self.examples, Example(what, first, last)]

    def add(self, other: Tally) -> None:
        self.counts.add(other.counts)
        self.oldest_ns = max(self.oldest_ns, other.oldest_ns)
        if other.buckets:
            self.add_ages(unsparse(other.buckets, BUCKETS), unsparse(other.slots, TIME_SLOTS))
        for example in other.examples:
            self.note(*(example.what, example.first, example.last))

    def add_ages(self, buckets: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        self.buckets = sparse(unsparse(self.buckets, BUCKETS) + buckets)
        self.slots = sparse(unsparse(self.slots, TIME_SLOTS) + slots)

    def encode(self) -> bytes:
        return msgpack.encode(self)

    @staticmethod
    def decode(encoded: bytes) -> Tally:
        return msgpack.decode(encoded, type=Tally)


def sparse(counts: NDArray[np.int64]) -> bytes:
    at = np.flatnonzero(counts)
    return np.stack([at, counts[at]]).astype(np.int64).tobytes()


def unsparse(packed: bytes, size: int) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
    at, count = np.frombuffer(packed, np.int64).reshape(2, -1)
    counts[at] = count
    return counts


def total(tallies: Iterable[Tally]) -> Tally:
    result = Tally()
    for tally in tallies:
        result.add(tally)
    return result
