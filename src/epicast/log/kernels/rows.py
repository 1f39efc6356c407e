"""Stored batches to columns of rows, and rows to the columns of a new batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from epicast.log.kernels.access import load32, load64, store64
from epicast.log.kernels.compiling import compiled, inlined
from epicast.log.layout import (
    BATCH_HEADER_BYTES,
    BATCH_VERSION,
    FRAME_BYTES,
    KINDS,
    ONE_TIME,
    RUN_BYTES,
    SPARSE,
)

# Columns of the table of records.
RECORD_AT, RECORD_ROW, RECORD_FIRST, RECORD_LAST, RECORD_RUNS, RECORD_EPOCH = range(6)
RECORD_COLUMNS = 6
# Places in the summary.
(ROWS, RECORDS, STOPPED_AT, LONGEST_KEY, GC_ROWS, NEWEST_TIME, DATA_BYTES, RUNS, FIRST,
 LAST) = range(10)  # fmt: skip
SUMMARY_SIZE = 10


@inlined
def _word(buffer: Any, at: Any) -> Any:
    return np.int64(load64(buffer, at))


@inlined
def _half(buffer: Any, at: Any) -> Any:
    return np.int64(load32(buffer, at))


@compiled
def find_records(buffer: Any, at: Any, ends: Any) -> int:
    """Where the records that are whole end, as many as `ends` has room for; how many those are."""
    size = len(buffer)
    count = 0
    while count < len(ends) and at + FRAME_BYTES <= size:
        at += FRAME_BYTES + ((_half(buffer, at + 4) + 7) & ~7)
        if at > size:
            break
        ends[count] = at
        count += 1
    return count


@compiled
def locate(buffer: Any, at: Any, seq: Any) -> Any:
    """Where, from the record at `at` on, the one starts that covers `seq`; the end if none does."""
    while at < len(buffer) and _word(buffer, at + FRAME_BYTES + 32) < seq:
        at += FRAME_BYTES + ((_half(buffer, at + 4) + 7) & ~7)
    return at


@compiled
def scan(
    buffer: Any, at: Any, stop: Any, seqs: Any, key_at: Any, key_bytes: Any, sizes: Any,
    times: Any, kinds: Any, records: Any, summary: Any,
) -> None:  # fmt: skip
    """All rows of the records between `at` and `stop`, one entry per row in each column.

    Ends at the first record that is not a batch. There must be room for one row per eight bytes
    and one record per sixty-four, which no batch exceeds.
    """
    row = np.int64(0)
    count = 0
    longest = np.int64(0)
    gc_rows = 0
    total_bytes = np.int64(0)
    total_runs = np.int64(0)
    newest = np.int64(-(2**63))
    last = np.int64(0)
    summary[FIRST] = 0
    while at < stop:
        batch = at + FRAME_BYTES
        size = _half(buffer, at + 4)
        if size < BATCH_HEADER_BYTES or batch + size > stop or buffer[batch] != BATCH_VERSION:
            break
        flags = buffer[batch + 1]
        rows = _half(buffer, batch + 4)
        runs = _half(buffer, batch + 20)
        first = _word(buffer, batch + 24)
        batch_last = _word(buffer, batch + 32)
        base = _half(buffer, batch + 40)
        data_bytes = _half(buffer, batch + 44)
        one_time = flags & ONE_TIME != 0
        sparse = flags & SPARSE != 0
        times_at = batch + BATCH_HEADER_BYTES + RUN_BYTES * runs
        seqs_at = times_at + (8 if one_time else 8 * rows)
        offsets_at = seqs_at + (8 * rows if sparse else 0)
        kinds_at = offsets_at + 4 * (2 * rows + 1)
        data_at = kinds_at + (rows if flags & KINDS else 0)
        if (
            data_at + data_bytes != batch + size
            or first < 1
            or batch_last < first
            or (not sparse and rows != batch_last - first + 1)
            or _half(buffer, offsets_at) != base
        ):
            break
        ascending = True
        start = data_at - base
        key = base
        for index in range(rows):
            payload = _half(buffer, offsets_at + 8 * index + 4)
            following = _half(buffer, offsets_at + 8 * index + 8)
            ascending &= (key <= payload) & (payload <= following)
            longest = max(longest, payload - key)
            key_at[row + index] = start + key
            key_bytes[row + index] = payload - key
            sizes[row + index] = following - payload
            key = following
        if not ascending or key - base != data_bytes:
            break
        if sparse:
            before = first - 1
            for index in range(rows):
                seq = _word(buffer, seqs_at + 8 * index)
                ascending &= before < seq
                seqs[row + index] = seq
                before = seq
            if not ascending or before > batch_last:
                break
        else:
            for index in range(rows):
                seqs[row + index] = first + index
        if one_time:
            moment = _word(buffer, times_at)
            times[row : row + rows] = moment
            if rows:
                newest = max(newest, moment)
        else:
            for index in range(rows):
                moment = _word(buffer, times_at + 8 * index)
                newest = max(newest, moment)
                times[row + index] = moment
        kinds[row : row + rows] = 0
        if flags & KINDS:
            for index in range(rows):
                kinds[row + index] = buffer[kinds_at + index]
                gc_rows += buffer[kinds_at + index] != 0
        place = RECORD_COLUMNS * count
        records[place + RECORD_AT] = at
        records[place + RECORD_ROW] = row
        records[place + RECORD_FIRST] = first
        records[place + RECORD_LAST] = batch_last
        records[place + RECORD_RUNS] = runs
        records[place + RECORD_EPOCH] = _half(buffer, batch + 16)
        if count == 0:
            summary[FIRST] = first
        last = batch_last
        total_runs += runs
        total_bytes += data_bytes
        row += rows
        count += 1
        at = batch + ((size + 7) & ~7)
    summary[ROWS] = row
    summary[RECORDS] = count
    summary[STOPPED_AT] = at
    summary[LONGEST_KEY] = longest
    summary[GC_ROWS] = gc_rows
    summary[NEWEST_TIME] = newest
    summary[DATA_BYTES] = total_bytes
    summary[RUNS] = total_runs
    summary[LAST] = last


@inlined
def _copy(source: Any, at: Any, target: Any, there: Any, count: Any) -> None:
    if count >= 8:
        last = count - 8
        index = 0
        while index < last:
            store64(target, there + index, load64(source, at + index))
            index += 8
        store64(target, there + last, load64(source, at + last))
    else:
        for index in range(count):
            target[there + index] = source[at + index]


@compiled
def gather(buffer: Any, key_at: Any, key_bytes: Any, sizes: Any, offsets: Any, data: Any) -> None:
    """The offsets and data of a batch of the rows."""
    filled = 0
    offsets[0] = 0
    for row in range(len(key_at)):
        length = key_bytes[row] + sizes[row]
        _copy(buffer, key_at[row], data, filled, length)
        offsets[2 * row + 1] = filled + key_bytes[row]
        filled += length
        offsets[2 * row + 2] = filled
