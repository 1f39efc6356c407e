"""The work done per entry of a ball, compiled where numba is installed.

Without numba the same functions run as plain Python: right, and slow. They work on arrays that
`EventStore` owns. Columns of a ball, `n` entries in ascending order: timestamps, sources, first
numbers, rows * 2**32 + where its bytes end (64 bits each), ttl (a byte each), then the bytes of the
entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])


def _compiled(function: Function) -> Function:
    try:
        from numba import njit
    except ImportError:
        return function
    try:
        return cast(Function, njit(function, cache=True, nogil=True))
    except RuntimeError:  # no directory to keep compiled code in
        return cast(Function, njit(function, nogil=True))


ENTRY_BYTES = 33
TIME, SOURCE, FIRST, EXTENT = range(4)
"""Columns of the table of ids, which has a row per entry: to compare one is to read one line of the
processor's cache."""
SIZE_MASK = (1 << 32) - 1
COUNT, FRESH, USED, LIVE, PASSED, LAST_TIME, LAST_SOURCE, NEED_BYTES, REFUSED, FULL = range(10)
"""Entries in order, new ones behind them, bytes of the arena in use, those of entries, entries up
to the last delivered, its timestamp and source; then what `absorb` needs or has not taken."""
STATE = 10

DONE, GROW, MALFORMED = range(3)

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@_compiled
def _number(arena: Bytes, at: int) -> int:
    return int(
        np.int64(arena[at])
        | np.int64(arena[at + 1]) << 8
        | np.int64(arena[at + 2]) << 16
        | np.int64(arena[at + 3]) << 24
    )


@_compiled
def _content(buffer: Bytes, start: int, rows: int, size: int) -> int:
    """Bytes of keys and payloads of the entry that lies there; -1 if it is not what it says."""
    if size < 8:
        return -1
    key = _number(buffer, start)
    header = 8
    wanted = rows * (key + _number(buffer, start + 4))
    if key == SIZE_MASK:
        header = 8 + 8 * rows
        if size < header:
            return -1
        wanted = 0
        for k in range(2 * rows):
            wanted += _number(buffer, start + 8 + 4 * k)
    return wanted if size - header == wanted else -1


@_compiled
def _slot(time: int, source: int, mask: int) -> int:
    """Where to look for an entry first. Products are cut short of 63 bits: nothing overflows."""
    mixed = (time & 0xFFFFFFF) * 0x2545F491 ^ (source & 0xFFFFFFF) * 0x9E3779B1
    return (mixed ^ time >> 28 ^ source >> 28) >> 20 & mask


@_compiled
def index(ids: Ints, state: Ints, slots: NDArray[np.int32]) -> None:
    """Find entries by timestamp and source: `slots`, a power of two of them, say where each is."""
    slots[:] = -1
    mask = len(slots) - 1
    for i in range(state[COUNT] + state[FRESH]):
        slot = _slot(ids[i, 0], ids[i, 1], mask)
        while slots[slot] >= 0:
            slot = slot + 1 & mask
        slots[slot] = i


@_compiled
def absorb(
    ball: Bytes,
    n: int,
    latest: int,
    max_entries: int,
    max_bytes: int,
    ids: Ints,
    heard: Bytes,
    at: Ints,
    arena: Bytes,
    slots: NDArray[np.int32],
    state: Ints,
) -> int:
    """Take in a ball: the highest ttl of what is known, and what is new behind all the rest, where
    `merge` finds it. Nothing later than `latest` is taken.

    `GROW` asks for more room, here or in `slots`, and to be called again; what was taken in by then
    is known the next time.
    """
    total = state[COUNT] + state[FRESH]
    table = ball[: 32 * n].view(np.int64)
    content = ENTRY_BYTES * n
    if content + (table[4 * n - 1] & SIZE_MASK) != len(ball):
        return MALFORMED
    mask = len(slots) - 1
    state[REFUSED] = 0
    before_time = np.int64(-1)
    before_source = np.int64(0)
    for j in range(n):
        time = table[j]
        source = table[n + j]
        if time < before_time or (time == before_time and source <= before_source):
            return MALFORMED
        before_time = time
        before_source = source
        age = min(int(ball[32 * n + j]), 254) + 1
        slot = _slot(time, source, mask)
        i = slots[slot]
        while i >= 0 and (ids[i, 0] != time or ids[i, 1] != source):
            slot = slot + 1 & mask
            i = slots[slot]
        if i >= 0:
            if heard[i] < age:
                heard[i] = age
            continue
        if time > latest:
            state[REFUSED] = n - j
            break
        end = table[3 * n + j] & SIZE_MASK
        begin = table[3 * n + j - 1] & SIZE_MASK if j else 0
        rows = table[3 * n + j] >> 32
        size = end - begin
        if rows < 1 or table[2 * n + j] < 1 or size < 0 or content + end > len(ball):
            return MALFORMED
        if _content(ball, content + begin, rows, size) < 0:
            return MALFORMED
        if total >= max_entries or state[LIVE] + size > max_bytes:
            state[FULL] += 1
            continue
        start = state[USED]
        if total >= ids.shape[0] or 2 * total >= mask or start + size > len(arena):
            state[NEED_BYTES] = size
            return GROW
        ids[total, 0] = time
        ids[total, 1] = source
        ids[total, 2] = table[2 * n + j]
        ids[total, 3] = rows << 32 | size
        heard[total] = age
        at[total] = start
        for b in range(size):
            arena[start + b] = ball[content + begin + b]
        state[USED] = start + size
        state[LIVE] += size
        slots[slot] = total
        total += 1
        state[FRESH] += 1
    return DONE


@_compiled
def merge(
    round_number: int,
    fresh_ids: Ints,
    fresh_heard: Bytes,
    fresh_at: Ints,
    ids: Ints,
    born: Ints,
    spoken: Ints,
    heard: Bytes,
    at: Ints,
    state: Ints,
    late: Ints,
) -> int:
    """Put new entries, in order, in their places among the others. Returns how many of them the
    order has passed already; `late` gets their places."""
    fresh = len(fresh_at)
    i = state[COUNT] - 1
    write = state[COUNT] + fresh - 1
    passed = 0
    for k in range(fresh - 1, -1, -1):
        time = fresh_ids[k, 0]
        source = fresh_ids[k, 1]
        while i >= 0 and (ids[i, 0] > time or (ids[i, 0] == time and ids[i, 1] > source)):
            ids[write, 0] = ids[i, 0]
            ids[write, 1] = ids[i, 1]
            ids[write, 2] = ids[i, 2]
            ids[write, 3] = ids[i, 3]
            born[write] = born[i]
            spoken[write] = spoken[i]
            heard[write] = heard[i]
            at[write] = at[i]
            i -= 1
            write -= 1
        ids[write, 0] = time
        ids[write, 1] = source
        ids[write, 2] = fresh_ids[k, 2]
        ids[write, 3] = fresh_ids[k, 3]
        heard[write] = fresh_heard[k]
        born[write] = round_number
        spoken[write] = round_number
        at[write] = fresh_at[k]
        if time < state[LAST_TIME] or (time == state[LAST_TIME] and source <= state[LAST_SOURCE]):
            late[passed] = write
            passed += 1
        write -= 1
    state[COUNT] += fresh
    state[FRESH] = 0
    state[PASSED] += passed
    return passed


@_compiled
def grow_older(
    round_number: int, ttl: int, born: Ints, spoken: Ints, heard: Bytes, state: Ints
) -> None:
    """A round begins: what was heard of since the last one is as old as was said, up to `ttl`."""
    for i in range(state[COUNT]):
        if heard[i]:
            spoken[i] = round_number
            born[i] = min(born[i], round_number - min(int(heard[i]), ttl))


@_compiled
def deliverable(
    round_number: int, rounds: int, latest: int, ids: Ints, born: Ints, state: Ints
) -> int:
    """Where the entries end that are next in the order, older than `rounds`, and not beyond
    `latest`: the first that is not holds back all after it."""
    end = state[PASSED]
    while end < state[COUNT] and round_number - born[end] > rounds and ids[end, 0] <= latest:
        end += 1
    return int(end)


@_compiled
def relayed(
    round_number: int, ttl: int, repeat: bool, born: Ints, heard: Bytes, state: Ints, rows: Ints
) -> int:
    """The entries of the next ball: those heard of since the last one, neither too often nor known
    to be older than `ttl`; with `repeat` also those heard of before that are waiting."""
    found = 0
    for i in range(state[COUNT]):
        if repeat and not heard[i] and i >= state[PASSED] and round_number - born[i] <= ttl:
            heard[i] = round_number - born[i]
        if 0 < heard[i] <= ttl and round_number - born[i] <= ttl:
            rows[found] = i
            found += 1
    return found


@_compiled
def packed_size(rows: Ints, ids: Ints) -> int:
    total = ENTRY_BYTES * len(rows)
    for i in rows:
        total += ids[i, 3] & SIZE_MASK
    return int(total)


@_compiled
def pack(rows: Ints, ids: Ints, heard: Bytes, at: Ints, arena: Bytes, ball: Bytes) -> None:
    """Those entries as the columns of a ball."""
    n = len(rows)
    table = ball[: 32 * n].view(np.int64)
    offset = ENTRY_BYTES * n
    for k in range(n):
        i = rows[k]
        table[k] = ids[i, 0]
        table[n + k] = ids[i, 1]
        table[2 * n + k] = ids[i, 2]
        ball[32 * n + k] = heard[i]
        start = at[i]
        for b in range(ids[i, 3] & SIZE_MASK):
            ball[offset] = arena[start + b]
            offset += 1
        table[3 * n + k] = ids[i, 3] >> 32 << 32 | offset - ENTRY_BYTES * n


@_compiled
def forget_passed(
    before: int,
    keep_heard: bool,
    ids: Ints,
    born: Ints,
    spoken: Ints,
    heard: Bytes,
    at: Ints,
    state: Ints,
) -> None:
    """After a round: what is passed in the order goes if nobody has spoken of it since the round
    `before`. With `keep_heard`, there was nobody to send a ball to, and all is to be sent later."""
    kept = 0
    kept_passed = 0
    for i in range(state[COUNT]):
        if i < state[PASSED]:
            if spoken[i] < before:
                state[LIVE] -= ids[i, 3] & SIZE_MASK
                continue
            kept_passed += 1
        if kept != i:
            ids[kept, 0] = ids[i, 0]
            ids[kept, 1] = ids[i, 1]
            ids[kept, 2] = ids[i, 2]
            ids[kept, 3] = ids[i, 3]
            born[kept] = born[i]
            spoken[kept] = spoken[i]
            at[kept] = at[i]
        heard[kept] = heard[i] if keep_heard else 0
        kept += 1
    state[COUNT] = kept
    state[PASSED] = kept_passed


@_compiled
def compact(ids: Ints, at: Ints, arena: Bytes, state: Ints, target: Bytes) -> None:
    """Copy the bytes of the entries to an arena of their own, in order."""
    used = 0
    for i in range(state[COUNT] + state[FRESH]):
        start = at[i]
        at[i] = used
        for b in range(ids[i, 3] & SIZE_MASK):
            target[used] = arena[start + b]
            used += 1
    state[USED] = used


@_compiled
def measure(low: int, high: int, ids: Ints, at: Ints, arena: Bytes) -> tuple[int, int]:
    """Events, and bytes of keys and payloads, of the entries low..high-1."""
    events = 0
    data = 0
    for i in range(low, high):
        rows = ids[i, 3] >> 32
        events += rows
        data += _content(arena, at[i], rows, ids[i, 3] & SIZE_MASK)
    return events, data


@_compiled
def unfold(
    low: int,
    high: int,
    ids: Ints,
    at: Ints,
    arena: Bytes,
    runs: Ints,
    times: Ints,
    offsets: NDArray[np.uint32],
    data: Bytes,
) -> None:
    """The columns of a batch with the events of those entries."""
    event = 0
    end = 0
    for i in range(low, high):
        rows = ids[i, 3] >> 32
        runs[i - low, 0] = ids[i, 1]
        runs[i - low, 1] = ids[i, 2]
        runs[i - low, 2] = rows
        start = at[i]
        key = _number(arena, start)
        payload = _number(arena, start + 4)
        even = key != SIZE_MASK
        begin = start + 8 if even else start + 8 + 8 * rows
        bound = end
        for k in range(rows):
            if not even:
                key = _number(arena, start + 8 + 8 * k)
                payload = _number(arena, start + 12 + 8 * k)
            times[event] = ids[i, 0]
            offsets[2 * event] = bound
            offsets[2 * event + 1] = bound + key
            bound += key + payload
            event += 1
        for b in range(bound - end):
            data[end + b] = arena[begin + b]
        end = bound
    offsets[2 * event] = end


@_compiled
def note(
    low: int,
    high: int,
    ids: Ints,
    table: Ints,
    used: Ints,
    round_number: int,
    start_time: int,
    gaps: Ints,
) -> int:
    """Entries low..high-1 are delivered: remember the last number of each source. `gaps` gets
    (source, first, last) of what is missing before them; returns how many.

    `table` has rows source, last number + 1 (0: empty), round of last use; its length is a power of
    two, and `used[0]` of its places, which the caller keeps below half, are taken. Numbers a source
    is first heard of with are no gap, whatever was before.
    """
    return _note(low, high, ids, table, used, round_number, start_time, gaps, False)


@_compiled
def note_late(
    places: Ints,
    ids: Ints,
    table: Ints,
    used: Ints,
    round_number: int,
    start_time: int,
    gaps: Ints,
) -> int:
    """The same for single entries that came too late: those not delivered are missing themselves,
    unless they are from before `start_time`."""
    found = 0
    for k in range(len(places)):
        i = places[k]
        found += _note(i, i + 1, ids, table, used, round_number, start_time, gaps[found:], True)
    return found


@_compiled
def slot_of(source: int, mask: int) -> int:
    """Where a source's place in the table is looked for first. 63 bits: nothing overflows."""
    short = (source ^ (source >> 31)) & 0x7FFFFFFF
    return short * 0x9E3779B1 >> 24 & mask


@_compiled
def _note(
    low: int,
    high: int,
    ids: Ints,
    table: Ints,
    used: Ints,
    round_number: int,
    start_time: int,
    gaps: Ints,
    late: bool,
) -> int:
    mask = table.shape[1] - 1
    found = 0
    for i in range(low, high):
        source = ids[i, 1]
        first = ids[i, 2]
        last = first + (ids[i, 3] >> 32) - 1
        slot = slot_of(source, mask)
        while table[1, slot] and table[0, slot] != source:
            slot = slot + 1 & mask
        known = table[1, slot] - 1
        if known < 0:
            used[0] += 1
        table[2, slot] = round_number
        if late:
            if last <= known:
                continue  # delivered, or reported, long since
            missing = known + 1 if known >= 0 else first
            if ids[i, 0] > start_time:
                gaps[found, 0] = source
                gaps[found, 1] = missing
                gaps[found, 2] = last
                found += 1
        elif known >= 0 and first > known + 1:
            gaps[found, 0] = source
            gaps[found, 1] = known + 1
            gaps[found, 2] = first - 1
            found += 1
        table[0, slot] = source
        table[1, slot] = max(known, last) + 1
    return found
