"""The work done per entry to tell repetitions from holes; see `sources`."""

from __future__ import annotations

from epicast.protocols.epto.layout import Ints, Places, compiled


@compiled
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

    `table` has a row per source: its name, last number + 1 (0: empty), round of last use, and the
    number from which on nothing is missing that was not reported. Its length is a power of two, and
    `used[0]` of its places, which the caller keeps below half, are taken. Numbers a source is first
    heard of with are no gap, whatever was before, unless it has said otherwise (`Sources.word`).
    """
    return _note(low, high, ids, table, used, round_number, start_time, gaps, False)


@compiled
def note_late(
    places: Places,
    ids: Ints,
    table: Ints,
    used: Ints,
    round_number: int,
    start_time: int,
    gaps: Ints,
) -> int:
    """The same for single entries that came too late: those not delivered are missing themselves,
    unless they are from before `start_time`, and so is what is between them and the first that was
    delivered."""
    found = 0
    for k in range(len(places)):
        i = places[k]
        found += _note(i, i + 1, ids, table, used, round_number, start_time, gaps[found:], True)
    return found


@compiled
def slot_of(source: int, mask: int) -> int:
    """Where a source's place in the table is looked for first. 63 bits: nothing overflows."""
    short = (source ^ (source >> 31)) & 0x7FFFFFFF
    return short * 0x9E3779B1 >> 24 & mask


@compiled
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
    mask = len(table) - 1
    found = 0
    for i in range(low, high):
        source = ids[i, 1]
        first = ids[i, 2]
        last = first + (ids[i, 3] >> 32) - 1
        slot = slot_of(source, mask)
        while table[slot, 1] and table[slot, 0] != source:
            slot = slot + 1 & mask
        known = table[slot, 1] - 1
        if known < 0:
            used[0] += 1
            table[slot, 3] = first
        table[slot, 2] = round_number
        if late:
            if last <= known:
                if first < table[slot, 3] and ids[i, 0] > start_time:
                    gaps[found, 0] = source
                    gaps[found, 1] = first
                    gaps[found, 2] = table[slot, 3] - 1
                    found += 1
                    table[slot, 3] = first
                continue  # or it was delivered, or reported, long since
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
        table[slot, 0] = source
        table[slot, 1] = max(known, last) + 1
    return found


@compiled
def put_back(rows: Ints, table: Ints) -> None:
    """Fill a table of sources, which is empty, with rows of another."""
    mask = len(table) - 1
    for k in range(len(rows)):
        slot = slot_of(rows[k, 0], mask)
        while table[slot, 1]:
            slot = slot + 1 & mask
        for column in range(4):
            table[slot, column] = rows[k, column]
