"""Sets of sequence numbers as pages of 65,536: a bitmap where a page is full, a list where not.

`places` says of each page where its members are: a bitmap (0 and up), nowhere (-1), or a sorted
list of offsets (-2 and down). `counts` says how many there are. `origin` is the number of the first
page. Numbers outside all pages are in no set.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epicast.log.kernels.access import (
    address_of,
    half_at,
    put_half,
    put_quarter,
    put_word,
    quarter_at,
    word_at,
)
from epicast.log.kernels.compiling import compiled, inlined

PAGE_BITS = 16
PAGE_WORDS = 1 << (PAGE_BITS - 6)
LIST_SIZE = 256
"""Most members a list has room for: 512 bytes where a bitmap takes 8,192."""
_OFFSET = (1 << PAGE_BITS) - 1
_ONE = np.uint64(1)


@inlined
def _bit(offset: Any) -> Any:
    return _ONE << np.uint64(offset & 63)


@inlined
def _ones(word: Any) -> Any:
    word = word - (word >> _ONE & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + (word >> np.uint64(2) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64(word * np.uint64(0x0101010101010101) >> np.uint64(56))


@inlined
def _position(lists: Any, start: Any, count: Any, offset: Any) -> Any:
    """How many members of a list are below `offset`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if lists[start + middle] < offset:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def insert(seqs: Any, origin: Any, places: Any, counts: Any, bitmaps: Any) -> None:
    """Add numbers that are not in yet; their pages have bitmaps."""
    for index in range(len(seqs)):
        seq = np.int64(seqs[index])
        page = (seq >> PAGE_BITS) - origin
        offset = seq & _OFFSET
        bitmaps[places[page] * PAGE_WORDS + (offset >> 6)] |= _bit(offset)
        counts[page] += 1


@compiled
def insert_range(
    first: Any, last: Any, origin: Any, places: Any, counts: Any, bitmaps: Any
) -> None:
    """Add all numbers between first and last, none of which is in; their pages have bitmaps."""
    first, last = np.int64(first), np.int64(last)
    while first <= last:
        page = (first >> PAGE_BITS) - origin
        offset = first & _OFFSET
        count = min(last - first + 1, 64 - (offset & 63))
        bits = ~np.uint64(0) >> np.uint64(64 - count) << np.uint64(offset & 63)
        bitmaps[places[page] * PAGE_WORDS + (offset >> 6)] |= bits
        counts[page] += count
        first += count


@inlined
def _take_out(page: Any, offset: Any, place: Any, counts: Any, bitmaps: Any, lists: Any) -> Any:
    """Take an offset out of a page; whether it was in."""
    count = np.int64(half_at(counts + 4 * page))
    if place >= 0:
        at = bitmaps + 8 * (place * PAGE_WORDS + (offset >> 6))
        word, bit = word_at(at), _bit(offset)
        is_in = word & bit != 0
        if is_in:
            put_word(at, word ^ bit)
    else:
        at = lists + 2 * LIST_SIZE * (-2 - place)
        end = at + 2 * count
        while at < end and quarter_at(at) < offset:
            at += 2
        is_in = at < end and quarter_at(at) == offset
        if is_in:
            while at + 2 < end:
                put_quarter(at, quarter_at(at + 2))
                at += 2
    if is_in:
        put_half(counts + 4 * page, count - 1)
    return is_in


@inlined
def remove_one(
    seq: Any, origin: Any, pages: Any, places: Any, counts: Any, bitmaps: Any, lists: Any
) -> Any:
    """Take out a number; whether it was in. The columns are addresses."""
    page = (seq >> PAGE_BITS) - origin
    is_in = False
    if 0 <= page < pages:
        place = np.int64(np.int32(half_at(places + 4 * page)))
        if place != -1:
            is_in = _take_out(page, seq & _OFFSET, place, counts, bitmaps, lists)
    return is_in


@compiled
def remove(seqs: Any, origin: Any, places: Any, counts: Any, bitmaps: Any, lists: Any) -> int:
    """Take out the numbers that are in; how many those were."""
    removed = 0
    pages = len(places)
    where, sizes = address_of(places), address_of(counts)
    words, offsets = address_of(bitmaps), address_of(lists)
    for index in range(len(seqs)):
        removed += remove_one(np.int64(seqs[index]), origin, pages, where, sizes, words, offsets)
    return removed


@compiled
def remove_below(
    bound: Any, origin: Any, places: Any, counts: Any, bitmaps: Any, lists: Any
) -> int:
    """Take out everything below `bound`; how many that were. Pages keep their room."""
    removed = 0
    for page in range(min(((bound - 1) >> PAGE_BITS) - origin + 1, len(places))):
        count = np.int64(counts[page])
        if count == 0:
            continue
        place = np.int64(places[page])
        below = min(bound - ((page + origin) << PAGE_BITS), _OFFSET + 1)
        if place < -1:
            start = (-2 - place) * LIST_SIZE
            gone = _position(lists, start, count, below)
            for member in range(gone, count):
                lists[start + member - gone] = lists[start + member]
        else:
            gone = 0
            start = place * PAGE_WORDS
            for word in range(start, start + (below >> 6)):
                if bitmaps[word]:
                    gone += _ones(bitmaps[word])
                    bitmaps[word] = 0
            if below & 63:
                word = start + (below >> 6)
                low = bitmaps[word] & (_bit(below) - _ONE)
                gone += _ones(low)
                bitmaps[word] ^= low
        counts[page] -= gone
        removed += gone
    return removed


@compiled
def contains(
    seqs: Any, answers: Any, origin: Any, places: Any, counts: Any, bitmaps: Any, lists: Any
) -> None:
    for index in range(len(seqs)):
        seq = np.int64(seqs[index])
        page = (seq >> PAGE_BITS) - origin
        answers[index] = False
        if page < 0 or page >= len(places):
            continue
        place = np.int64(places[page])
        offset = seq & _OFFSET
        if place >= 0:
            answers[index] = bitmaps[place * PAGE_WORDS + (offset >> 6)] & _bit(offset) != 0
        elif place < -1:
            start = (-2 - place) * LIST_SIZE
            count = np.int64(counts[page])
            found = _position(lists, start, count, offset)
            answers[index] = found < count and lists[start + found] == offset


@compiled
def keep(
    first: Any, seqs: Any, key_at: Any, key_bytes: Any, sizes: Any, times: Any, kinds: Any,
    origin: Any, places: Any, counts: Any, bitmaps: Any, lists: Any,
) -> int:  # fmt: skip
    """Move the rows that are in, from the number `first` on, to the front; how many those are.

    Rows ascend, so a list is gone through once, beside them.
    """
    kept = 0
    current = np.int64(-1)
    place = np.int64(-1)
    member = end = np.int64(0)
    for row in range(len(seqs)):
        seq = np.int64(seqs[row])
        page = (seq >> PAGE_BITS) - origin
        if page != current:
            current = page
            place = np.int64(places[page]) if 0 <= page < len(places) else np.int64(-1)
            if place < -1:
                member = (-2 - place) * LIST_SIZE
                end = member + counts[page]
        offset = seq & _OFFSET
        if place >= 0:
            is_in = bitmaps[place * PAGE_WORDS + (offset >> 6)] & _bit(offset) != 0
        elif place == -1:
            continue
        else:
            while member < end and lists[member] < offset:
                member += 1
            is_in = member < end and lists[member] == offset
        if is_in and seq >= first:
            seqs[kept] = seq
            key_at[kept] = key_at[row]
            key_bytes[kept] = key_bytes[row]
            sizes[kept] = sizes[row]
            times[kept] = times[row]
            kinds[kept] = kinds[row]
            kept += 1
    return kept


@inlined
def _rank(page: Any, offset: Any, places: Any, counts: Any, bitmaps: Any, lists: Any) -> Any:
    """How many members of a page are below `offset`."""
    place = np.int64(places[page])
    if place < -1:
        return _position(lists, (-2 - place) * LIST_SIZE, np.int64(counts[page]), offset)
    total = 0
    if place >= 0:
        start = place * PAGE_WORDS
        for word in range(start, start + (offset >> 6)):
            total += _ones(bitmaps[word])
        if offset & 63:
            total += _ones(bitmaps[start + (offset >> 6)] & (_bit(offset) - _ONE))
    return total


@compiled
def count_between(
    bounds: Any, totals: Any, origin: Any, places: Any, counts: Any, bitmaps: Any, lists: Any
) -> None:
    """How many members lie in each of the ranges bounds[i] <= seq < bounds[i + 1]."""
    page = 0
    passed = 0  # members of all pages before `page`
    before = 0
    for index in range(len(bounds)):
        target = (np.int64(bounds[index]) >> PAGE_BITS) - origin
        while page < target and page < len(places):
            passed += counts[page]
            page += 1
        below = passed
        if target == page and page < len(places):
            offset = np.int64(bounds[index]) & _OFFSET
            below += _rank(page, offset, places, counts, bitmaps, lists)
        if index:
            totals[index - 1] = below - before
        before = below


@compiled
def members(
    first: Any, last: Any, found: Any, origin: Any, places: Any, counts: Any, bitmaps: Any,
    lists: Any,
) -> int:  # fmt: skip
    """The members between first and last, ascending, as many as `found` has room for."""
    total = 0
    page = max(0, (first >> PAGE_BITS) - origin)
    while page < len(places) and total < len(found):
        start = (page + origin) << PAGE_BITS
        if start > last:
            break
        place = np.int64(places[page])
        if counts[page] > 0 and place >= 0:
            for word in range(max(0, first - start) >> 6, PAGE_WORDS):
                left = bitmaps[place * PAGE_WORDS + word]
                while left:
                    lowest = left & (~left + _ONE)
                    seq = start + (word << 6) + _ones(lowest - _ONE)
                    left ^= lowest
                    if seq > last:
                        return total
                    if seq >= first:
                        found[total] = seq
                        total += 1
                        if total == len(found):
                            return total
        elif counts[page] > 0:
            for member in range(counts[page]):
                seq = start + np.int64(lists[(-2 - place) * LIST_SIZE + member])
                if first <= seq <= last and total < len(found):
                    found[total] = seq
                    total += 1
        page += 1
    return total


@compiled
def to_list(place: Any, target: Any, bitmaps: Any, lists: Any) -> None:
    """Copy the members of a bitmap, few enough, to a list."""
    filled = target * LIST_SIZE
    for word in range(PAGE_WORDS):
        left = bitmaps[place * PAGE_WORDS + word]
        while left:
            lowest = left & (~left + _ONE)
            lists[filled] = (word << 6) + _ones(lowest - _ONE)
            filled += 1
            left ^= lowest
