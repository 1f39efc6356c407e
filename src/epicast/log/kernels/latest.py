"""What `latest_per_key` does with batches, in one call: most of the time that is all there is.

Keys are taken from the stored batches as they lie, in blocks as in `exchange`, across batches: what
the hash needs is noted for all of a block, then each key's slot gets the new number, and the number
it had is no longer live.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epicast.log.kernels.access import address_of, byte_at, half_at, prefetch, put_word, word_at
from epicast.log.kernels.compiling import compiled, inlined
from epicast.log.kernels.keys import (
    BLOCK,
    SLOT_SHIFT,
    SLOT_WORDS,
    arena_bytes,
    first_word,
    hash_words,
    is_key,
    last_word,
    store_key,
)
from epicast.log.kernels.live import insert_range, remove_one
from epicast.log.kernels.rows import (
    RECORD_AT,
    RECORD_COLUMNS,
    RECORD_FIRST,
    RECORD_RUNS,
    offsets_bytes,
)
from epicast.log.layout import (
    BATCH_HEADER_BYTES,
    EVEN,
    FRAME_BYTES,
    KINDS,
    ONE_TIME,
    RUN_BYTES,
    SPARSE,
)

_NOTE_BYTES = 48
NOTES_WORDS = _NOTE_BYTES // 8 * BLOCK
_NOTHING = np.uint64(0)


@inlined
def _note(note: Any, at: Any, length: Any, seq: Any, table: Any, mask: Any, seed: Any) -> None:
    """Write down what will be needed about a key, and ask for its slot."""
    first, last = first_word(at, length), last_word(at, length)
    slot = table + np.int64((hash_words(at, length, first, last, seed) & mask) << SLOT_SHIFT)
    prefetch(slot)
    put_word(note, np.uint64(slot))
    put_word(note + 8, first)
    put_word(note + 16, last)
    put_word(note + 24, np.uint64(at))
    put_word(note + 32, np.uint64(length))
    put_word(note + 40, np.uint64(seq))


@compiled
def _settle(
    notes: Any, count: Any, table: Any, end: Any, arena: Any, used: Any,
    origin: Any, pages: Any, places: Any, counts: Any, bitmaps: Any, lists: Any,
) -> None:  # fmt: skip
    """Put the numbers noted under their keys, and take out those that stood there."""
    keys, filled = used[0], used[1]
    for note in range(notes, notes + _NOTE_BYTES * count, _NOTE_BYTES):
        slot = np.int64(word_at(note))
        first, last = word_at(note + 8), word_at(note + 16)
        at, length = np.int64(word_at(note + 24)), np.int64(word_at(note + 32))
        seq = word_at(note + 40)
        while True:
            described = word_at(slot + 8)
            if described == _NOTHING:
                put_word(slot + 8, store_key(arena, filled, at, length))
                put_word(slot + 16, first)
                put_word(slot + 24, last)
                put_word(slot, seq)
                filled += arena_bytes(length)
                keys += 1
                break
            if is_key(slot, described, at, length, first, last, arena):
                before = word_at(slot)
                put_word(slot, seq)
                remove_one(np.int64(before), origin, pages, places, counts, bitmaps, lists)
                break
            slot += 8 * SLOT_WORDS
            if slot == end:
                slot = table
    used[0], used[1] = keys, filled


@compiled
def take_latest(
    buffer: Any, records: Any, notes: Any, slots: Any, arena: Any, used: Any, seed: Any,
    origin: Any, places: Any, counts: Any, bitmaps: Any, lists: Any,
) -> None:  # fmt: skip
    """Add the rows to the live set, and take out what they replace under their keys.

    Every number has its row, none is a GC event, and there is room for all.
    """
    memory, table, store = address_of(buffer), address_of(slots), address_of(arena)
    where, sizes, pages = address_of(places), address_of(counts), len(places)
    words, offsets = address_of(bitmaps), address_of(lists)
    start = address_of(notes)
    limit = start + _NOTE_BYTES * BLOCK
    end = table + 8 * len(slots)
    mask = np.uint64(len(slots) // SLOT_WORDS - 1)
    note = start
    for place in range(0, len(records), RECORD_COLUMNS):
        batch = memory + records[place + RECORD_AT] + FRAME_BYTES
        first = records[place + RECORD_FIRST]
        flags = byte_at(batch + 1)
        rows = np.int64(half_at(batch + 4))
        insert_range(first, first + rows - 1, origin, places, counts, bitmaps)
        times_at = batch + BATCH_HEADER_BYTES + RUN_BYTES * records[place + RECORD_RUNS]
        seqs_at = times_at + 8 * (1 if flags & ONE_TIME else rows)
        offsets_at = seqs_at + (8 * rows if flags & SPARSE else 0)
        kinds_at = offsets_at + offsets_bytes(flags, rows)
        key_at = kinds_at + (rows if flags & KINDS else 0)
        even = flags & EVEN != 0
        length = np.int64(half_at(offsets_at))
        width = length + np.int64(half_at(offsets_at + 4))
        for index in range(rows):
            if not even:
                key = np.int64(half_at(offsets_at + 8 * index))
                length = np.int64(half_at(offsets_at + 8 * index + 4)) - key
                width = np.int64(half_at(offsets_at + 8 * index + 8)) - key
            if length:
                _note(note, key_at, length, first + index, table, mask, seed)
                note += _NOTE_BYTES
                if note == limit:
                    _settle(
                        start, BLOCK, table, end, store, used, origin, pages, where, sizes, words,
                        offsets,
                    )  # fmt: skip
                    note = start
            key_at += width
    _settle(
        start, (note - start) // _NOTE_BYTES, table, end, store, used, origin, pages, where, sizes,
        words, offsets,
    )  # fmt: skip
