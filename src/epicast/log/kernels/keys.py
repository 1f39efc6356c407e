"""Key bytes to a number: an open-addressing table that takes a whole column of keys at once.

A slot is two words: the value, and a description (where in the arena the key's bytes lie, in units
of four bytes; its length; sixteen bits of its hash). A description of 0 is a free slot, which no
key has since keys in the table are not empty. Equal descriptions are compared byte by byte.

A table of any size misses the processor's caches for nearly every key, so slots are asked for
`_FAR` rows ahead and key bytes `_NEAR` rows ahead of their use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epicast.log.kernels.access import load32, load64, prefetch
from epicast.log.kernels.compiling import compiled, inlined

_FAR = 16
_NEAR = 8
BLOCK = 512
_ODD = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xD6E8FEB86659FD93)
_U16 = np.uint64(16)
_U32 = np.uint64(32)
_U48 = np.uint64(48)
_LOW32 = np.uint64(0xFFFFFFFF)
_SIXTEEN_BITS = np.uint64(0xFFFF)


@inlined
def hash_key(buffer: Any, at: Any, length: Any, seed: Any) -> Any:
    """Sixty-four well mixed bits of any number of bytes; the last word may overlap the others."""
    mixed = seed ^ (np.uint64(length) * _ODD)
    if length >= 8:
        last = at + length - 8
        while at < last:
            mixed = (mixed ^ load64(buffer, at)) * _ODD
            mixed ^= mixed >> _U32
            at += 8
        mixed = (mixed ^ load64(buffer, last)) * _ODD
    elif length >= 4:
        word = np.uint64(load32(buffer, at)) | np.uint64(load32(buffer, at + length - 4)) << _U32
        mixed = (mixed ^ word) * _ODD
    else:
        word = np.uint64(0)
        for index in range(length):
            word = word << np.uint64(8) | np.uint64(buffer[at + index])
        mixed = (mixed ^ word) * _ODD
    mixed ^= mixed >> _U32
    mixed *= _OTHER
    return mixed ^ mixed >> np.uint64(29)


@inlined
def same_bytes(left: Any, at: Any, right: Any, there: Any, length: Any) -> Any:
    if length >= 8:
        last = length - 8
        index = 0
        while index < last:
            if load64(left, at + index) != load64(right, there + index):
                return False
            index += 8
        return load64(left, at + last) == load64(right, there + last)
    for index in range(length):  # noqa: SIM110 - compiled, which a generator is not
        if left[at + index] != right[there + index]:
            return False
    return True


@compiled
def exchange(
    buffer: Any, key_at: Any, key_bytes: Any, values: Any, previous: Any, hashes: Any,
    slots: Any, arena: Any, used: Any, seed: Any,
) -> None:  # fmt: skip
    """Put `values` under the keys, row after row, and say what was there before (0: nothing).

    Rows without a key are left alone. There must be room: a free slot for every row and more, and
    arena for all key bytes. `used` is (keys in the table, bytes of the arena in use), `hashes` has
    room for a block.
    """
    rows = len(values)
    mask = np.uint64((len(slots) >> 1) - 1)
    count, filled = used[0], used[1]
    for low in range(0, rows, BLOCK):  # so that hashes stay in the nearest cache
        high = min(low + BLOCK, rows)
        for row in range(low, high):
            hashes[row - low] = hash_key(buffer, key_at[row], key_bytes[row], seed)
        for row in range(min(_FAR, high - low)):
            prefetch(slots, np.int64(hashes[row] & mask) << 1)
        for row in range(low, high):
            ahead = row - low + _FAR
            if ahead < high - low:
                prefetch(slots, np.int64(hashes[ahead] & mask) << 1)
            ahead = row - low + _NEAR
            if ahead < high - low:
                coming = slots[(np.int64(hashes[ahead] & mask) << 1) + 1]
                prefetch(arena, np.int64(coming >> _U32) << 2)
            length = key_bytes[row]
            previous[row] = 0
            if length == 0:
                continue
            at = key_at[row]
            hashed = hashes[row - low]
            wanted = np.uint64(length) << _U16 | hashed >> _U48
            slot = hashed & mask
            while True:
                place = np.int64(slot) << 1
                found = slots[place + 1]
                if found == 0:
                    for index in range(length):
                        arena[filled + index] = buffer[at + index]
                    slots[place] = values[row]
                    slots[place + 1] = np.uint64(filled >> 2) << _U32 | wanted
                    filled += (length + 3) & ~3
                    count += 1
                    break
                if found & _LOW32 == wanted and same_bytes(
                    buffer, at, arena, np.int64(found >> _U32) << 2, length
                ):
                    previous[row] = slots[place]
                    slots[place] = values[row]
                    break
                slot = (slot + np.uint64(1)) & mask
    used[0], used[1] = count, filled


@compiled
def find(
    buffer: Any, key_at: Any, key_bytes: Any, values: Any, slots: Any, arena: Any, seed: Any
) -> None:
    """What stands under each key, 0 where nothing does."""
    mask = np.uint64((len(slots) >> 1) - 1)
    for row in range(len(values)):
        length = key_bytes[row]
        values[row] = 0
        if length == 0:
            continue
        hashed = hash_key(buffer, key_at[row], length, seed)
        wanted = np.uint64(length) << _U16 | hashed >> _U48
        slot = hashed & mask
        while True:
            place = np.int64(slot) << 1
            found = slots[place + 1]
            if found == 0:
                break
            if found & _LOW32 == wanted and same_bytes(
                buffer, key_at[row], arena, np.int64(found >> _U32) << 2, length
            ):
                values[row] = slots[place]
                break
            slot = (slot + np.uint64(1)) & mask


@compiled
def rehash(
    slots: Any, arena: Any, keep: Any, new_slots: Any, new_arena: Any, used: Any, seed: Any
) -> None:
    """Move the slots marked in `keep`, and their key bytes, to an empty table."""
    mask = np.uint64((len(new_slots) >> 1) - 1)
    count, filled = np.int64(0), np.int64(0)
    for old in range(len(keep)):
        if not keep[old]:
            continue
        found = slots[2 * old + 1]
        at = np.int64(found >> _U32) << 2
        length = np.int64(found >> _U16 & _SIXTEEN_BITS)
        slot = hash_key(arena, at, length, seed) & mask
        while new_slots[(np.int64(slot) << 1) + 1] != 0:
            slot = (slot + np.uint64(1)) & mask
        for index in range(length):
            new_arena[filled + index] = arena[at + index]
        place = np.int64(slot) << 1
        new_slots[place] = slots[2 * old]
        new_slots[place + 1] = np.uint64(filled >> 2) << _U32 | (found & _LOW32)
        filled += (length + 3) & ~3
        count += 1
    used[0], used[1] = count, filled
