"""Hashes of events, as columns."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch, EventKind
from epicast.evidence.schema import BLOCK_BITS
from epicast.log.kernels.hashes import (
    hash_contents,
    hash_even_contents,
    hash_keys,
    sum_even_contents,
    sum_even_events,
    sum_ranges,
)

Hashes = NDArray[np.uint64]
_Value = TypeVar("_Value", bound=np.generic)

_NO_KINDS = np.empty(0, dtype=np.uint8)
_NO_SEQS = np.empty(0, dtype=np.uint64)
for _column in (_NO_KINDS, _NO_SEQS):
    _column.flags.writeable = False  # like the columns of a batch: compiled for one type only

_EVEN_BYTES = 8
"""Rows that are shorter are not worth code of their own."""
_SEQ_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX_FACTOR = np.uint64(0xFF51AFD7ED558CCD)


class Ranges(NamedTuple):
    firsts: NDArray[np.uint64]
    lasts: NDArray[np.uint64]
    kinds: NDArray[np.uint8]
    digests: Hashes


def content_hashes(batch: EventBatch, out: Hashes | None = None) -> Hashes:
    """One per row, of its key and payload; in `out`, if that is given."""
    if out is None:
        out = np.empty(batch.rows, dtype=np.uint64)
    if batch.rows:
        lengths = batch.lengths
        data = np.frombuffer(batch.data.toreadonly(), np.uint8)
        if lengths is not None and batch.only_data:
            hash_even_contents(lengths.key, lengths.row, data, out)
        else:
            kinds = _NO_KINDS if batch.only_data else _read_only(batch.kinds)
            hash_contents(_read_only(batch.offsets), kinds, data, out)
    return out


def even_hashes(keys: NDArray[np.uint8], key_bytes: int, out: Hashes) -> None:
    """Content hashes of events that are a key of `key_bytes` and nothing else."""
    hash_even_contents(key_bytes, key_bytes, _read_only(keys), out)


def event_hashes(contents: Hashes, seqs: NDArray[np.uint64]) -> Hashes:
    """Content hashes and sequence numbers together."""
    mixed: Hashes = (contents ^ (seqs * _SEQ_FACTOR)) * _MIX_FACTOR
    return mixed ^ (mixed >> np.uint64(29))


def key_hashes(keys: bytes, key_bytes: NDArray[np.uint32], count: int) -> Hashes:
    """Of `count` keys one after the other; `key_bytes` has one length for all, or one for each."""
    out: Hashes = np.empty(count, dtype=np.uint64)
    hash_keys(_read_only(key_bytes), _read_only(np.frombuffer(keys, np.uint8)), out)
    return out


def content_sum(batch: EventBatch) -> int:
    """The sum of the content hashes of all rows."""
    if (even := _even_rows(batch)) is not None:
        return int(sum_even_contents(*even))
    return int(content_hashes(batch).sum(dtype=np.uint64))


def event_sum(batch: EventBatch) -> int | None:
    """The sum of the event hashes of all rows, if that can be had without looking for tombstones
    and lengths: twice as fast as `ranges_of`."""
    if batch.tombstones or (even := _even_rows(batch)) is None:
        return None
    return int(sum_even_events(batch.first, *even))


def _even_rows(batch: EventBatch) -> tuple[int, int, NDArray[np.uint8]] | None:
    """The lengths of keys and rows, and the rows, if they are alike, DATA, and not too short."""
    lengths = batch.lengths
    if lengths is None or lengths.row < _EVEN_BYTES or not batch.only_data:
        return None
    return lengths.key, lengths.row, np.frombuffer(batch.data.toreadonly(), np.uint8)


def ranges_of(batch: EventBatch, block_bits: int = BLOCK_BITS) -> Ranges:
    """What a batch covers, cut where events and tombstones meet and at the ends of blocks."""
    blocks = ((batch.last - 1) >> block_bits) - ((batch.first - 1) >> block_bits)
    most = 1 + blocks + (2 * batch.rows if batch.tombstones else 0)
    firsts, lasts, digests = (np.empty(most, dtype=np.uint64) for _ in range(3))
    kinds = np.empty(most, dtype=np.uint8)
    seqs = _read_only(batch.seqs) if batch.tombstones and batch.rows else _NO_SEQS
    if not batch.rows:
        seqs = np.zeros(1, dtype=np.uint64)
        seqs.flags.writeable = False
    count = sum_ranges(batch.first, batch.last, seqs, content_hashes(batch), block_bits,
                       firsts, lasts, kinds, digests)  # fmt: skip
    return Ranges(firsts[:count], lasts[:count], kinds[:count], digests[:count])


def warm_up() -> None:
    """Have everything compiled, so that nobody waits for it later."""
    for kinds in (None, [EventKind.DATA, EventKind.GC]):
        uneven = EventBatch.build(1, 1, [b"a", b"bcd"], seqs=[1, 3], last=4, kinds=kinds)
        for batch in (uneven, EventBatch.build(1, 1, [b"a", b"b"], kinds=kinds)):
            ranges_of(batch)
    even = EventBatch.even(1, 1, bytearray(10), 10, 0)
    content_sum(even)
    event_sum(even)
    key_hashes(b"a", np.ones(1, dtype=np.uint32), 1)


def _read_only(column: NDArray[_Value]) -> NDArray[_Value]:
    if column.flags.writeable:
        column = column.view()
        column.flags.writeable = False
    return column
