"""Key bytes to a number: an open-addressing table that takes a whole column of keys at once.

A slot is four words, so that two of them share a line of the processor's cache: the value, a
description, and the first and the last eight bytes of the key. The description is the key's length
and, for keys of more than sixteen bytes, where in the arena all of its bytes lie, in units of eight
bytes. A description of 0 is a free slot, which no key has since keys in the table are not empty.

A table of any size misses the processor's caches for nearly every key. So keys are handled in
blocks: for all of a block the hash is worked out and the slot asked for, before any is looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epicast.log.kernels.access import (
    address_of,
    byte_at,
    half_at,
    prefetch,
    put_byte,
    put_word,
    word_at,
)
from epicast.log.kernels.compiling import compiled, inlined

BLOCK = 32
NOTE_WORDS = 3
"""What is noted about a key between the two passes over a block: its place and its words."""
SLOT_WORDS = 4
INLINE_BYTES = 16
"""Keys up to this length are in their slot."""
SLOT_SHIFT = np.uint64(5)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xD6E8FEB86659FD93)
_U16 = np.uint64(16)
_U32 = np.uint64(32)
_LENGTH = np.uint64(0xFFFF)
_NOTHING = np.uint64(0)


@inlined
def first_word(at: Any, length: Any) -> Any:
    """The first eight bytes of a key, or all of a shorter one."""
    if length >= 8:
        word = word_at(at)
    elif length >= 4:
        word = np.uint64(half_at(at)) | np.uint64(half_at(at + length - 4)) << _U32
    else:
        word = np.uint64(0)
        for index in range(length):
            word = word << np.uint64(8) | np.uint64(byte_at(at + index))
    return word


@inlined
def last_word(at: Any, length: Any) -> Any:
    """The last eight bytes of a key of more than eight."""
    return word_at(at + length - 8) if length > 8 else np.uint64(0)


@inlined
def hash_words(at: Any, length: Any, first: Any, last: Any, seed: Any) -> Any:
    """Sixty-four well mixed bits of a key whose first and last words are known."""
    mixed = seed ^ (np.uint64(length) * _ODD)
    mixed = (mixed ^ first) * _ODD
    mixed ^= mixed >> _U32
    if length > INLINE_BYTES:
        middle = at + 8
        while middle < at + length - 8:
            mixed = (mixed ^ word_at(middle)) * _ODD
            mixed ^= mixed >> _U32
            middle += 8
    mixed = (mixed ^ last) * _ODD
    mixed ^= mixed >> _U32
    mixed *= _OTHER
    return mixed ^ mixed >> np.uint64(29)


@inlined
def hash_key(at: Any, length: Any, seed: Any) -> Any:
    return hash_words(at, length, first_word(at, length), last_word(at, length), seed)


@inlined
def same_bytes(left: Any, right: Any, length: Any) -> Any:
    same = True
    if length >= 8:
        last = length - 8
        index = 0
        while index < last and same:
            same = word_at(left + index) == word_at(right + index)
            index += 8
        same = same and word_at(left + last) == word_at(right + last)
    else:
        for index in range(length):
            same = same and byte_at(left + index) == byte_at(right + index)
    return same


@inlined
def is_key(
    slot: Any, described: Any, at: Any, length: Any, first: Any, last: Any, arena: Any
) -> Any:
    """Whether all bytes of the key are those of a slot that is described so."""
    return (
        word_at(slot + 16) == first
        and word_at(slot + 24) == last
        and described & _LENGTH == np.uint64(length)
        and (
            length <= INLINE_BYTES
            or same_bytes(at, arena + (np.int64(described >> _U16) << 3), length)
        )
    )


@inlined
def store_key(arena: Any, filled: Any, at: Any, length: Any) -> Any:
    """The description of a key that is new, whose bytes are put in the arena if need be."""
    described = np.uint64(length)
    if length > INLINE_BYTES:
        for index in range(length):
            put_byte(arena + filled + index, byte_at(at + index))
        described |= np.uint64(filled >> 3) << _U16
    return described


@inlined
def arena_bytes(length: Any) -> Any:
    """How much of the arena a key takes."""
    return (length + 7) & ~7 if length > INLINE_BYTES else 0


@compiled
def exchange(
    buffer: Any, key_at: Any, key_bytes: Any, values: Any, previous: Any, notes: Any,
    slots: Any, arena: Any, used: Any, seed: Any,
) -> None:  # fmt: skip
    """Put `values` under the keys, row after row, and say what was there before (0: nothing).

    Rows without a key are left alone. There must be room: a free slot for every row and more, and
    arena for all key bytes. `used` is (keys in the table, bytes of the arena in use), `notes` has
    room for a block.
    """
    rows = len(values)
    mask = np.uint64(len(slots) // SLOT_WORDS - 1)
    around = np.int64(8 * len(slots) - 1)
    count, filled = used[0], used[1]
    start, table, store, noted = (
        address_of(buffer), address_of(slots), address_of(arena), address_of(notes),
    )  # fmt: skip
    for low in range(0, rows, BLOCK):
        high = min(low + BLOCK, rows)
        note = noted
        for row in range(low, high):
            at, length = start + key_at[row], key_bytes[row]
            first, last = first_word(at, length), last_word(at, length)
            place = (hash_words(at, length, first, last, seed) & mask) << SLOT_SHIFT
            prefetch(table + np.int64(place))
            put_word(note, place)
            put_word(note + 8, first)
            put_word(note + 16, last)
            note += 8 * NOTE_WORDS
        note = noted
        for row in range(low, high):
            at, length = start + key_at[row], key_bytes[row]
            position = np.int64(word_at(note))
            first, last = word_at(note + 8), word_at(note + 16)
            note += 8 * NOTE_WORDS
            before = _NOTHING
            while length:
                slot = table + position
                described = word_at(slot + 8)
                if described == _NOTHING:
                    put_word(slot + 8, store_key(store, filled, at, length))
                    put_word(slot + 16, first)
                    put_word(slot + 24, last)
                    put_word(slot, values[row])
                    filled += arena_bytes(length)
                    count += 1
                    break
                if is_key(slot, described, at, length, first, last, store):
                    before = word_at(slot)
                    put_word(slot, values[row])
                    break
                position = (position + 8 * SLOT_WORDS) & around
            previous[row] = before
    used[0], used[1] = count, filled


@compiled
def find(
    buffer: Any, key_at: Any, key_bytes: Any, values: Any, slots: Any, arena: Any, seed: Any
) -> None:
    """What stands under each key, 0 where nothing does."""
    mask = np.uint64(len(slots) // SLOT_WORDS - 1)
    around = np.int64(8 * len(slots) - 1)
    start, table, store = address_of(buffer), address_of(slots), address_of(arena)
    for row in range(len(values)):
        at, length = start + key_at[row], key_bytes[row]
        first, last = first_word(at, length), last_word(at, length)
        position = np.int64((hash_words(at, length, first, last, seed) & mask) << SLOT_SHIFT)
        value = _NOTHING
        while length:
            slot = table + position
            described = word_at(slot + 8)
            if described == _NOTHING:
                break
            if is_key(slot, described, at, length, first, last, store):
                value = word_at(slot)
                break
            position = (position + 8 * SLOT_WORDS) & around
        values[row] = value


@compiled
def rehash(
    slots: Any, arena: Any, keep: Any, new_slots: Any, new_arena: Any, used: Any, seed: Any
) -> None:
    """Move the slots marked in `keep`, and their key bytes, to an empty table."""
    mask = np.uint64(len(new_slots) // SLOT_WORDS - 1)
    around = np.int64(8 * len(new_slots) - 1)
    count, filled = np.int64(0), np.int64(0)
    table, store = address_of(slots), address_of(arena)
    new_table, new_store = address_of(new_slots), address_of(new_arena)
    for old in range(len(keep)):
        if not keep[old]:
            continue
        source = table + 8 * SLOT_WORDS * old
        described, first, last = word_at(source + 8), word_at(source + 16), word_at(source + 24)
        length = np.int64(described & _LENGTH)
        at = store + (np.int64(described >> _U16) << 3)
        position = np.int64((hash_words(at, length, first, last, seed) & mask) << SLOT_SHIFT)
        while word_at(new_table + position + 8) != _NOTHING:
            position = (position + 8 * SLOT_WORDS) & around
        slot = new_table + position
        put_word(slot, word_at(source))
        put_word(slot + 8, store_key(new_store, filled, at, length))
        put_word(slot + 16, first)
        put_word(slot + 24, last)
        filled += arena_bytes(length)
        count += 1
    used[0], used[1] = count, filled
