"""The work done per entry of a ball, compiled where numba is installed.

Without numba the same functions run as plain Python: right, and slow. They work on arrays that
`EventStore` owns. Columns of a ball, `n` entries in ascending order: timestamps, sources, first
numbers, rows * 2**32 + where its bytes end (64 bits each), ttl (a byte each), then the bytes of the
entries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epicast.protocols.epto.layout import (
    COUNT,
    ENTRY_BYTES,
    FRESH,
    FULL,
    LAST_OF_ALL,
    LIVE,
    MAX_ENTRY_EVENTS,
    MAX_NUMBER,
    NEED_BYTES,
    NEWEST,
    REFUSED,
    SIZE_MASK,
    USED,
    Bytes,
    Ints,
    Places,
    compiled,
)

DONE, GROW, MALFORMED = range(3)


@compiled
def _number(arena: Bytes, at: int) -> int:
    return int(
        np.int64(arena[at])
        | np.int64(arena[at + 1]) << 8
        | np.int64(arena[at + 2]) << 16
        | np.int64(arena[at + 3]) << 24
    )


@compiled
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


@compiled
def _slot(time: int, source: int, mask: int) -> int:
    """Where to look for an entry first. Products are cut short of 63 bits: nothing overflows."""
    mixed = (time & 0xFFFFFFF) * 0x2545F491 ^ (source & 0xFFFFFFF) * 0x9E3779B1
    return (mixed ^ time >> 28 ^ source >> 28) >> 20 & mask


@compiled
def index(ids: Ints, state: Ints, slots: NDArray[np.int32]) -> None:
    """Find entries by timestamp and source: `slots`, a power of two of them, say where each is."""
    slots[:] = -1
    mask = len(slots) - 1
    for i in range(state[COUNT] + state[FRESH]):
        slot = _slot(ids[i, 0], ids[i, 1], mask)
        while slots[slot] >= 0:
            slot = slot + 1 & mask
        slots[slot] = i


@compiled
def absorb(
    ball: Bytes,
    n: int,
    hop: int,
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
    `merge` finds it, each `hop` older than it was sent. Nothing later than `latest` is taken.
    Timestamps and numbers begin with 1. What is before the first entry that makes no sense is
    taken, what is behind it is not.

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
    before_time = np.int64(0)
    before_source = np.int64(LAST_OF_ALL)
    for j in range(n):
        time = table[j]
        source = table[n + j]
        if time < before_time or (time == before_time and source <= before_source):
            return MALFORMED
        before_time = time
        before_source = source
        age = max(1, min(int(ball[32 * n + j]), 254) + hop)
        slot = _slot(time, source, mask)
        i = slots[slot]
        while i >= 0 and (ids[i, 0] != time or ids[i, 1] != source):
            slot = slot + 1 & mask
            i = slots[slot]
        if i >= 0:
            heard[i] = max(heard[i], age)  # no branch: whether it is higher cannot be foreseen
            continue
        if time > latest:
            state[REFUSED] = n - j
            break
        end = table[3 * n + j] & SIZE_MASK
        begin = table[3 * n + j - 1] & SIZE_MASK if j else 0
        rows = table[3 * n + j] >> 32
        size = end - begin
        if rows < 1 or rows > MAX_ENTRY_EVENTS or size < 0 or content + end > len(ball):
            return MALFORMED
        if table[2 * n + j] < 1 or table[2 * n + j] > MAX_NUMBER:
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
        arena[start : start + size] = ball[content + begin : content + end]
        state[USED] = start + size
        state[LIVE] += size
        state[NEWEST] = max(state[NEWEST], time)
        slots[slot] = total
        total += 1
        state[FRESH] += 1
    return DONE


@compiled
def packed_size(rows: Places, ids: Ints) -> int:
    total = ENTRY_BYTES * len(rows)
    for i in rows:
        total += ids[i, 3] & SIZE_MASK
    return int(total)


@compiled
def pack(rows: Places, ids: Ints, heard: Bytes, at: Ints, arena: Bytes, ball: Bytes) -> None:
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
        size = ids[i, 3] & SIZE_MASK
        ball[offset : offset + size] = arena[at[i] : at[i] + size]
        offset += size
        table[3 * n + k] = ids[i, 3] >> 32 << 32 | offset - ENTRY_BYTES * n


@compiled
def compact(ids: Ints, at: Ints, arena: Bytes, state: Ints, target: Bytes) -> None:
    """Copy the bytes of the entries to an arena of their own, in order."""
    used = 0
    for i in range(state[COUNT] + state[FRESH]):
        size = ids[i, 3] & SIZE_MASK
        target[used : used + size] = arena[at[i] : at[i] + size]
        at[i] = used
        used += size
    state[USED] = used


@compiled
def measure(low: int, high: int, ids: Ints, at: Ints, arena: Bytes) -> tuple[int, int]:
    """Events, and bytes of keys and payloads, of the entries low..high-1."""
    events = 0
    data = 0
    for i in range(low, high):
        rows = ids[i, 3] >> 32
        events += rows
        data += _content(arena, at[i], rows, ids[i, 3] & SIZE_MASK)
    return int(events), int(data)


@compiled
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
        data[end:bound] = arena[begin : begin + bound - end]
        end = bound
    offsets[2 * event] = end
