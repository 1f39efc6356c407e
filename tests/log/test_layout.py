"""What the kernels believe about stored batches is what `EventBatch` writes."""

from __future__ import annotations

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import BatchError, Event, EventBatch, Run
from epicast.log.layout import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    EPOCH_AT,
    EVEN,
    LENGTHS_BYTES,
    ONE_TIME,
)
from epicast.log.merging import merged
from epicast.log.records import framed, framed_batches, is_sound, record_ends
from epicast.log.rows import Rows, Scanner
from tests.log.streams import batch_of, batch_sizes, events, in_batches


def scanned(blob: bytes) -> Rows:
    return Scanner().scan(blob, 0, len(blob))


@settings(max_examples=100, deadline=None)
@given(events(), batch_sizes)
def test_rows_are_the_events(stream: list[Event], sizes: list[int]) -> None:
    batches = in_batches(stream, sizes)
    rows = scanned(framed_batches(batches))
    assert rows.count == len(stream)
    assert rows.seqs.tolist() == [event.seq for event in stream]
    assert rows.times.tolist() == [event.time for event in stream]
    assert rows.kinds.tolist() == [event.kind for event in stream]
    assert [rows.key(row) for row in range(rows.count)] == [event.key for event in stream]
    assert [rows.payload(row) for row in range(rows.count)] == [e.payload for e in stream]
    assert rows.longest_key == max((len(event.key) for event in stream), default=0)
    assert rows.gc_rows == sum(event.kind for event in stream)
    if stream:
        assert rows.newest_time == max(event.time for event in stream)
        assert (rows.first, rows.last) == (1, len(stream))
        table = rows.record_table()
        assert [tuple(line) for line in table[:, 2:4].tolist()] == [
            (batch.first, batch.last) for batch in batches
        ]


@settings(max_examples=100, deadline=None)
@given(events(), batch_sizes, st.sets(st.integers(1, 60)), st.sets(st.integers(1, 60)))
def test_picking_rows_is_loading_all_and_keeping_some(
    stream: list[Event], sizes: list[int], buried: set[int], wanted: set[int]
) -> None:
    batches = [
        batch_of([e for e in stream if e.seq not in buried], first=batch.first, last=batch.last)
        for batch in in_batches(stream, sizes)
    ]
    if not batches:
        return
    blob = framed_batches(batches)
    scanner = Scanner()
    listed = scanner.list_records(blob, 0, len(blob))
    assert (listed.first, listed.last) == (1, len(stream))
    rows = scanner.pick(listed, np.array(sorted(wanted), dtype=np.uint64))
    expected = [e for e in stream if e.seq in wanted and e.seq not in buried]
    assert rows.count == len(expected)
    assert rows.seqs.tolist() == [event.seq for event in expected]
    assert rows.times.tolist() == [event.time for event in expected]
    assert rows.kinds.tolist() == [event.kind for event in expected]
    assert [rows.key(row) for row in range(rows.count)] == [event.key for event in expected]
    assert [rows.payload(row) for row in range(rows.count)] == [e.payload for e in expected]


def test_slices_sparse_batches_and_runs() -> None:
    whole = EventBatch.build(
        7, 10, [b"p%d" % n for n in range(20)], keys=[b"k%d" % n for n in range(20)],
        time=list(range(20)), runs=[Run(5, 1, 15), Run(6, 1, 5)], epoch=3,
    )  # fmt: skip
    part = whole.slice(14, 27)
    rows = scanned(framed_batches([part]))
    assert [rows.key(row) for row in range(rows.count)] == part.keys()
    assert [rows.payload(row) for row in range(rows.count)] == part.payloads()
    assert (rows.runs, rows.record_table()[0, 5]) == (2, 3)
    stream = [Event(7, seq, b"", b"x", seq) for seq in (3, 7, 8)]
    sparse = batch_of(stream, first=2, last=9)
    rows = scanned(framed_batches([sparse]))
    assert rows.seqs.tolist() == [3, 7, 8]
    assert (rows.first, rows.last) == (2, 9)


def test_header_fields_lie_where_the_layout_says() -> None:
    batch = EventBatch.build(7, 5, [b"abc"], keys=[b"k"], epoch=0x01020304)
    encoded = b"".join(batch.encode())
    fields = BATCH_HEADER.unpack_from(encoded)
    assert fields == (1, ONE_TIME | EVEN, 0, 1, 7, 0x01020304, 0, 5, 5, 0, 4)
    assert encoded[EPOCH_AT : EPOCH_AT + 4] == bytes([4, 3, 2, 1])
    assert len(encoded) == BATCH_HEADER_BYTES + 8 + LENGTHS_BYTES + 4
    uneven = EventBatch.build(7, 5, [b"abc", b"d"], keys=[b"k", b"l"])
    encoded = b"".join(uneven.encode())
    assert BATCH_HEADER.unpack_from(encoded)[1] == ONE_TIME
    assert len(encoded) == BATCH_HEADER_BYTES + 8 + 20 + 6


@settings(max_examples=100, deadline=None)
@given(events())
def test_merged_batches_are_batches(stream: list[Event]) -> None:
    rows = scanned(framed_batches(in_batches(stream, [7])))
    keep = rows.seqs % 3 != 0
    pieces = merged(7, 4, 1, len(stream) + 5, rows.where(keep), ())
    batch = EventBatch.decode(b"".join(pieces))
    assert batch.events() == [event for event in stream if event.seq % 3]
    assert (batch.first, batch.last, batch.epoch) == (1, len(stream) + 5, 4)


def test_a_frame_is_a_checksum_a_length_and_padding() -> None:
    record = framed([b"12345", b"6789"])
    assert len(record) == 8 + 16
    assert record[4:] == b"\x09\0\0\0" + b"123456789" + bytes(7)
    assert int.from_bytes(record[:4], "little") == crc32c(record[4:])
    assert record_ends(memoryview(record + record + record[:-1])) == [24, 48]
    assert is_sound(memoryview(record), 0, 24)


@pytest.mark.parametrize("bit", range(8 * 24))
def test_every_flipped_bit_of_a_record_is_noticed(bit: int) -> None:
    damaged = bytearray(framed([b"123456789"]))
    damaged[bit // 8] ^= 1 << bit % 8
    assert not is_sound(memoryview(bytes(damaged)), 0, 24)


@pytest.mark.parametrize("seed", range(400))
def test_nonsense_with_a_good_checksum_is_not_taken_for_a_batch(seed: int) -> None:
    """Nothing writes it; still, kernels must not follow it out of the buffer."""
    longer = b"+" * (seed % 2)  # half of them have offsets, half have lengths
    batch = batch_of(
        [Event(7, s, b"key", b"payload" + longer * s, s) for s in (2, 3, 9)], first=1, last=9
    )
    encoded = bytearray(b"".join(batch.encode()))
    encoded[seed * 7919 % (len(encoded) - 30)] ^= 1 + seed * 31 % 255
    blob = framed([bytes(encoded)])
    rows = scanned(blob)
    try:
        decoded = EventBatch.decode(bytes(encoded))
    except BatchError:
        return  # whatever the kernel made of it, it came back
    assert rows.count == decoded.rows
    assert [rows.payload(row) for row in range(rows.count)] == decoded.payloads()
