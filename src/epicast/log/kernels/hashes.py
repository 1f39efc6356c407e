"""Hashes of what events are, and sums of them over ranges: evidence of what was delivered.

A content hash is of key and payload, an event hash of that and the sequence number. Sums of hashes
do not depend on how events were cut into batches. They tell mistakes apart, not attackers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64

from epicast.log.kernels.access import address_of, byte_at, word_at
from epicast.log.kernels.compiling import compiled, inlined

EVENTS, TOMBSTONES = 1, 2
_NUMBER = uint64(0x9E3779B97F4A7C15)


@inlined
def _mixed(value: Any) -> Any:
    value *= uint64(0xFF51AFD7ED558CCD)
    return value ^ (value >> uint64(29))


@inlined
def _hashed(start: Any, size: Any, value: Any) -> Any:
    """Of `size` bytes. Words at the end overlap: the size is part of `value`."""
    if size >= 8:
        for at in range(0, size - 8, 8):
            value = _mixed(value ^ word_at(start + at))
        return _mixed(value ^ word_at(start + size - 8))
    for at in range(size):
        value = (value ^ uint64(byte_at(start + at))) * uint64(0x100000001B3)
    return _mixed(value)


@inlined
def _seed(key_bytes: Any, row_bytes: Any) -> Any:
    lengths = uint64(key_bytes) + (uint64(row_bytes) << uint64(24))
    return lengths * _NUMBER


@compiled
def hash_contents(offsets: Any, kinds: Any, data: Any, out: Any) -> None:
    """Without `kinds` all rows are DATA."""
    start = address_of(data)
    at = np.int64(0)
    for row in range(len(out)):
        key = np.int64(offsets[2 * row + 1]) - at
        end = np.int64(offsets[2 * row + 2])
        kind = uint64(kinds[row]) if len(kinds) else uint64(0)
        out[row] = _mixed(_hashed(start + at, end - at, _seed(key, end - at) ^ kind))
        at = end


@inlined
def _even_content(start: Any, row_bytes: Any, seed: Any) -> Any:
    """Of a row of eight bytes or more: `_hashed` without asking for every row."""
    value = seed
    for at in range(0, row_bytes - 8, 8):
        value = _mixed(value ^ word_at(start + at))
    return _mixed(_mixed(value ^ word_at(start + row_bytes - 8)))


@compiled
def hash_even_contents(key_bytes: Any, row_bytes: Any, data: Any, out: Any) -> None:
    """The same for DATA rows that are all alike: half the time for short ones."""
    start = address_of(data)
    seed = _seed(key_bytes, row_bytes)
    if row_bytes < 8:
        for row in range(len(out)):
            out[row] = _mixed(_hashed(start + row * row_bytes, row_bytes, seed))
        return
    for row in range(len(out)):
        out[row] = _even_content(start, row_bytes, seed)
        start += row_bytes


@compiled
def sum_even_contents(key_bytes: Any, row_bytes: Any, data: Any) -> Any:
    """The sum of what `hash_even_contents` gives for rows of eight bytes or more."""
    start = address_of(data)
    seed = _seed(key_bytes, row_bytes)
    digest = uint64(0)
    for _ in range(len(data) // row_bytes):
        digest += _even_content(start, row_bytes, seed)
        start += row_bytes
    return digest


@compiled
def sum_even_events(first: Any, key_bytes: Any, row_bytes: Any, data: Any) -> Any:
    """The sum of the event hashes of such rows, whose numbers count up from `first`."""
    start = address_of(data)
    seed = _seed(key_bytes, row_bytes)
    digest = uint64(0)
    number = uint64(first) * _NUMBER
    for _ in range(len(data) // row_bytes):
        digest += _mixed(_even_content(start, row_bytes, seed) ^ number)
        number += _NUMBER
        start += row_bytes
    return digest


@compiled
def hash_keys(lengths: Any, data: Any, out: Any) -> None:
    """Of keys one after the other, all of the only length given if it is one."""
    start = address_of(data)
    for row in range(len(out)):
        size = np.int64(lengths[row if len(lengths) > 1 else 0])
        value = uint64(size) * uint64(0x9E3779B97F4A7C15)
        out[row] = _mixed(_hashed(start, size, value))
        start += size


@compiled
def sum_ranges(
    first: Any, last: Any, seqs: Any, contents: Any, block_bits: Any,
    firsts: Any, lasts: Any, kinds: Any, digests: Any,
) -> int:  # fmt: skip
    """What first..last consists of: ranges of events, each with the sum of its event hashes, and
    of tombstones, none across the end of a block. Without `seqs` there are no tombstones."""
    count = 0
    row, seq = 0, first
    while seq <= last:
        end = min(last, (((seq - 1) >> block_bits) + 1) << block_bits)
        digest = uint64(0)
        begin = seq
        if not len(seqs) or (row < len(contents) and np.int64(seqs[row]) == seq):
            kind = EVENTS
            while seq <= end and (not len(seqs) or (row < len(contents)
                                                    and np.int64(seqs[row]) == seq)):  # fmt: skip
                digest += _mixed(contents[row] ^ (uint64(seq) * _NUMBER))
                row += 1
                seq += 1
        else:
            kind = TOMBSTONES
            following = np.int64(seqs[row]) if row < len(contents) else last + 1
            seq = min(end + 1, following)
        firsts[count] = begin
        lasts[count] = seq - 1
        kinds[count] = kind
        digests[count] = digest
        count += 1
    return count
