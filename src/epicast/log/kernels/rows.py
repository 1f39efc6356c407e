"""Stored batches to columns of rows, and rows to the columns of a new batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from epicast.log.kernels.access import address_of, byte_at, half_at, put_byte, put_word, word_at
from epicast.log.kernels.compiling import compiled, inlined
from epicast.log.layout import (
    BATCH_HEADER_BYTES,
    BATCH_VERSION,
    EVEN,
    FRAME_BYTES,
    KINDS,
    LENGTHS_BYTES,
    ONE_TIME,
    RUN_BYTES,
    SPARSE,
)

# Columns of the table of records.
RECORD_AT, RECORD_ROW, RECORD_FIRST, RECORD_LAST, RECORD_RUNS, RECORD_EPOCH = range(6)
RECORD_COLUMNS = 6
# Places in the summary.
(ROWS, RECORDS, STOPPED_AT, LONGEST_KEY, GC_ROWS, NEWEST_TIME, DATA_BYTES, RUNS, FIRST, LAST,
 LONGEST_BATCH) = range(11)  # fmt: skip
SUMMARY_SIZE = 11


@inlined
def _word(at: Any) -> Any:
    return np.int64(word_at(at))


@inlined
def _half(at: Any) -> Any:
    return np.int64(half_at(at))


@inlined
def offsets_bytes(flags: Any, rows: Any) -> Any:
    """What the offsets of a batch take, or the lengths in place of them."""
    return np.int64(LENGTHS_BYTES) if flags & EVEN else np.int64(4 * (2 * rows + 1))


@compiled
def find_records(buffer: Any, at: Any, ends: Any) -> int:
    """Where the records that are whole end, as many as `ends` has room for; how many those are."""
    start, size = address_of(buffer), len(buffer)
    count = 0
    while count < len(ends) and at + FRAME_BYTES <= size:
        at += FRAME_BYTES + ((_half(start + at + 4) + 7) & ~7)
        if at > size:
            break
        ends[count] = at
        count += 1
    return count


@compiled
def locate(buffer: Any, at: Any, seq: Any) -> Any:
    """Where, from the record at `at` on, the one starts that covers `seq`; the end if none does."""
    start = address_of(buffer)
    while at < len(buffer) and _word(start + at + FRAME_BYTES + 32) < seq:
        at += FRAME_BYTES + ((_half(start + at + 4) + 7) & ~7)
    return at


@inlined
def _keys_and_payloads(at: Any, rows: Any) -> Any:
    """Whether offsets ascend, and the length of the longest key."""
    longest = np.int64(0)
    ascending = True
    key = _half(at)
    for index in range(rows):
        payload = _half(at + 8 * index + 4)
        following = _half(at + 8 * index + 8)
        ascending &= (key <= payload) & (payload <= following)
        longest = max(longest, payload - key)
        key = following
    return ascending, longest


@inlined
def _are_numbers(at: Any, rows: Any, first: Any, last: Any) -> Any:
    """Whether sequence numbers ascend between first and last."""
    ascending = True
    before = first - 1
    for index in range(rows):
        seq = _word(at + 8 * index)
        ascending &= before < seq
        before = seq
    return ascending and before <= last


@compiled
def measure(buffer: Any, at: Any, stop: Any, records: Any, summary: Any) -> None:
    """Find and check the records between `at` and `stop`; up to the first that is not a batch.

    There must be room for one record per sixty-four bytes, which are the least one takes.
    """
    memory = address_of(buffer)
    row = np.int64(0)
    count = 0
    all_longest = np.int64(0)
    most_rows = np.int64(0)
    gc_rows = 0
    total_bytes = np.int64(0)
    total_runs = np.int64(0)
    newest = np.int64(-(2**63))
    all_last = np.int64(0)
    summary[FIRST] = 0
    while at < stop:
        batch = memory + at + FRAME_BYTES
        size = _half(memory + at + 4)
        end = at + FRAME_BYTES + size
        if size < BATCH_HEADER_BYTES or end > stop or byte_at(batch) != BATCH_VERSION:
            break
        flags = byte_at(batch + 1)
        rows = _half(batch + 4)
        runs = _half(batch + 20)
        first = _word(batch + 24)
        last = _word(batch + 32)
        base = _half(batch + 40)
        data_bytes = _half(batch + 44)
        sparse = flags & SPARSE != 0
        times = 1 if flags & ONE_TIME else rows
        times_at = batch + BATCH_HEADER_BYTES + RUN_BYTES * runs
        seqs_at = times_at + 8 * times
        offsets_at = seqs_at + (8 * rows if sparse else 0)
        kinds_at = offsets_at + offsets_bytes(flags, rows)
        data_at = kinds_at + (rows if flags & KINDS else 0)
        if (
            data_at + data_bytes != batch + size
            or first < 1
            or last < first
            or (not sparse and rows != last - first + 1)
        ):
            break
        if flags & EVEN:
            longest = _half(offsets_at)
            sound = (
                base == 0 and rows > 0 and rows * (longest + _half(offsets_at + 4)) == data_bytes
            )
        else:
            sound, longest = _keys_and_payloads(offsets_at, rows)
            sound = sound and _half(offsets_at) == base and _half(kinds_at - 4) - base == data_bytes
        if not sound or (sparse and not _are_numbers(seqs_at, rows, first, last)):
            break
        if rows:
            for index in range(times):
                newest = max(newest, _word(times_at + 8 * index))
        if flags & KINDS:
            for index in range(rows):
                gc_rows += byte_at(kinds_at + index) != 0
        place = RECORD_COLUMNS * count
        records[place + RECORD_AT] = at
        records[place + RECORD_ROW] = row
        records[place + RECORD_FIRST] = first
        records[place + RECORD_LAST] = last
        records[place + RECORD_RUNS] = runs
        records[place + RECORD_EPOCH] = _half(batch + 16)
        if count == 0:
            summary[FIRST] = first
        all_last = last
        all_longest = max(all_longest, longest)
        most_rows = max(most_rows, rows)
        total_runs += runs
        total_bytes += data_bytes
        row += rows
        count += 1
        at = (end + 7) & ~7
    summary[ROWS] = row
    summary[RECORDS] = count
    summary[STOPPED_AT] = at
    summary[LONGEST_KEY] = all_longest
    summary[GC_ROWS] = gc_rows
    summary[NEWEST_TIME] = newest
    summary[DATA_BYTES] = total_bytes
    summary[RUNS] = total_runs
    summary[LAST] = all_last
    summary[LONGEST_BATCH] = most_rows


@compiled
def load(
    buffer: Any, records: Any, seqs: Any, key_at: Any, key_bytes: Any, sizes: Any, times: Any,
    kinds: Any,
) -> None:  # fmt: skip
    """All rows of records that were measured, one entry per row in each column."""
    memory = address_of(buffer)
    for place in range(0, len(records), RECORD_COLUMNS):
        batch = memory + records[place + RECORD_AT] + FRAME_BYTES
        row = records[place + RECORD_ROW]
        first = records[place + RECORD_FIRST]
        flags = byte_at(batch + 1)
        rows = _half(batch + 4)
        times_at = batch + BATCH_HEADER_BYTES + RUN_BYTES * records[place + RECORD_RUNS]
        seqs_at = times_at + 8 * (1 if flags & ONE_TIME else rows)
        offsets_at = seqs_at + (8 * rows if flags & SPARSE else 0)
        kinds_at = offsets_at + offsets_bytes(flags, rows)
        data_at = kinds_at + (rows if flags & KINDS else 0) - memory
        if flags & EVEN:
            key_length, size = _half(offsets_at), _half(offsets_at + 4)
            for index in range(rows):
                key_at[row + index] = data_at + (key_length + size) * index
                key_bytes[row + index] = key_length
                sizes[row + index] = size
        else:
            key = _half(offsets_at)
            start = data_at - key
            for index in range(rows):
                payload = _half(offsets_at + 8 * index + 4)
                following = _half(offsets_at + 8 * index + 8)
                key_at[row + index] = start + key
                key_bytes[row + index] = payload - key
                sizes[row + index] = following - payload
                key = following
        if flags & SPARSE:
            for index in range(rows):
                seqs[row + index] = word_at(seqs_at + 8 * index)
        else:
            for index in range(rows):
                seqs[row + index] = first + index
        if flags & ONE_TIME:
            times[row : row + rows] = _word(times_at)
        else:
            for index in range(rows):
                times[row + index] = _word(times_at + 8 * index)
        if flags & KINDS:
            for index in range(rows):
                kinds[row + index] = byte_at(kinds_at + index)
        else:
            kinds[row : row + rows] = 0


@compiled
def list_records(buffer: Any, at: Any, stop: Any, records: Any, summary: Any) -> None:
    """The records between `at` and `stop`, which were measured before and are whole."""
    memory = address_of(buffer)
    row = np.int64(0)
    place = 0
    while at < stop:
        batch = memory + at + FRAME_BYTES
        records[place + RECORD_AT] = at
        records[place + RECORD_ROW] = row
        records[place + RECORD_FIRST] = _word(batch + 24)
        records[place + RECORD_LAST] = _word(batch + 32)
        records[place + RECORD_RUNS] = _half(batch + 20)
        records[place + RECORD_EPOCH] = _half(batch + 16)
        row += _half(batch + 4)
        place += RECORD_COLUMNS
        at = (at + FRAME_BYTES + _half(memory + at + 4) + 7) & ~7
    summary[ROWS] = row
    summary[RECORDS] = place // RECORD_COLUMNS
    summary[FIRST] = records[RECORD_FIRST]
    summary[LAST] = records[place - RECORD_COLUMNS + RECORD_LAST]


@compiled
def pick(
    buffer: Any, records: Any, wanted: Any, seqs: Any, key_at: Any, key_bytes: Any, sizes: Any,
    times: Any, kinds: Any,
) -> int:  # fmt: skip
    """The rows with the wanted numbers, which ascend; how many there are.

    What that costs depends on how many are wanted, not on how many there are.
    """
    memory = address_of(buffer)
    next_wanted = 0
    picked = 0
    for place in range(0, len(records), RECORD_COLUMNS):
        last = records[place + RECORD_LAST]
        if next_wanted == len(wanted):
            break
        if np.int64(wanted[next_wanted]) > last:
            continue
        batch = memory + records[place + RECORD_AT] + FRAME_BYTES
        first = records[place + RECORD_FIRST]
        flags = byte_at(batch + 1)
        rows = _half(batch + 4)
        times_at = batch + BATCH_HEADER_BYTES + RUN_BYTES * records[place + RECORD_RUNS]
        seqs_at = times_at + 8 * (1 if flags & ONE_TIME else rows)
        offsets_at = seqs_at + (8 * rows if flags & SPARSE else 0)
        kinds_at = offsets_at + offsets_bytes(flags, rows)
        data_at = kinds_at + (rows if flags & KINDS else 0) - memory
        index = np.int64(0)
        while next_wanted < len(wanted) and np.int64(wanted[next_wanted]) <= last:
            seq = np.int64(wanted[next_wanted])
            next_wanted += 1
            if flags & SPARSE:
                while index < rows and _word(seqs_at + 8 * index) < seq:
                    index += 1
                if index == rows or _word(seqs_at + 8 * index) != seq:
                    continue
            else:
                index = seq - first
                if index < 0:
                    continue
            seqs[picked] = seq
            if flags & EVEN:
                key_length, size = _half(offsets_at), _half(offsets_at + 4)
                key_at[picked] = data_at + (key_length + size) * index
                key_bytes[picked] = key_length
                sizes[picked] = size
            else:
                key = _half(offsets_at + 8 * index)
                payload = _half(offsets_at + 8 * index + 4)
                key_at[picked] = data_at + key - _half(offsets_at)
                key_bytes[picked] = payload - key
                sizes[picked] = _half(offsets_at + 8 * index + 8) - payload
            times[picked] = _word(times_at if flags & ONE_TIME else times_at + 8 * index)
            kinds[picked] = byte_at(kinds_at + index) if flags & KINDS else 0
            picked += 1
    return picked


@inlined
def _copy(source: Any, target: Any, count: Any) -> None:
    if count >= 8:
        last = count - 8
        index = 0
        while index < last:
            put_word(target + index, word_at(source + index))
            index += 8
        put_word(target + last, word_at(source + last))
    else:
        for index in range(count):
            put_byte(target + index, byte_at(source + index))


@compiled
def gather(buffer: Any, key_at: Any, key_bytes: Any, sizes: Any, offsets: Any, data: Any) -> None:
    """The data of a batch of the rows, and its offsets, unless there is no room for any."""
    source, target = address_of(buffer), address_of(data)
    filled = 0
    if len(offsets):
        offsets[0] = 0
    for row in range(len(key_at)):
        length = key_bytes[row] + sizes[row]
        _copy(source + key_at[row], target + filled, length)
        if len(offsets):
            offsets[2 * row + 1] = filled + key_bytes[row]
            offsets[2 * row + 2] = filled + length
        filled += length
