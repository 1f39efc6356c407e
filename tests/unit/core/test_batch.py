"""`EventBatch` against plain lists, its zero-copy promises, and what it does with damaged bytes."""

from itertools import chain
from random import Random
from struct import pack_into

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epicast.core import BatchError, Event, EventBatch, EventKind, Run
from epicast.core.batch_layout import HEADER_BYTES, LENGTHS_BYTES
from epicast.core.ranges import MAX_SEQ
from tests.unit.core.batches import PlainBatch, assert_same, batches, plain_batches


def encoded(batch: EventBatch) -> bytes:
    return b"".join(batch.encode())


def touch_everything(batch: EventBatch) -> None:
    """What was accepted must be usable to the last byte."""
    events = batch.events()
    assert len(events) == batch.rows == len(batch.seqs) == len(batch.times) == len(batch.kinds)
    assert all(batch.first <= event.seq <= batch.last for event in events)
    assert not batch.runs or sum(r.count for r in batch.runs) == batch.last - batch.first + 1
    half = batch.slice(batch.first + (batch.last - batch.first) // 2, batch.last)
    assert EventBatch.decode(encoded(half)) == half


@given(plain_batches(), st.booleans(), st.integers(0, 7))
def test_built_and_decoded_anywhere_in_a_buffer(
    model: PlainBatch, explicit: bool, shift: int
) -> None:
    batch = model.build(explicit=explicit)
    assert_same(batch, model)
    # A batch inside a message starts at any address: nothing may depend on alignment.
    buffer = memoryview(bytearray(shift) + encoded(batch))[shift:]
    assert_same(EventBatch.decode(buffer), model)
    assert_same(EventBatch.decode(buffer, trusted=True), model)
    with pytest.raises(BatchError):
        EventBatch.decode(buffer[:-1], trusted=True)


@given(plain_batches(), st.booleans(), st.data())
def test_slices_of_slices(model: PlainBatch, explicit: bool, data: st.DataObject) -> None:
    batch = model.build(explicit=explicit)
    for _ in range(3):
        low = data.draw(st.integers(model.first, model.last))
        high = data.draw(st.integers(low, model.last))
        batch, model = batch.slice(low, high), model.slice(low, high)
        assert_same(batch, model)
        assert_same(EventBatch.decode(encoded(batch)), model)


@given(plain_batches(), st.data())
def test_cut_and_joined_again(model: PlainBatch, data: st.DataObject) -> None:
    batch = model.build(explicit=False)
    if batch.tombstones:
        with pytest.raises(BatchError, match="tombstones"):
            EventBatch.joined([batch, batch])
        return
    parts, first = [], batch.first
    while first <= batch.last:
        last = data.draw(st.integers(first, batch.last))
        parts.append(batch.slice(first, last))
        first = last + 1
    whole = EventBatch.joined(parts)
    assert_same(whole, model)
    assert whole.wire_size() == len(encoded(whole))
    assert_same(EventBatch.decode(encoded(whole)), model)


def test_only_what_follows_can_be_joined() -> None:
    one = EventBatch.build(1, 1, [b"a", b"b"])
    for other in (
        EventBatch.build(1, 4, [b"c"]),
        EventBatch.build(2, 3, [b"c"]),
        EventBatch.build(1, 3, [b"c"], epoch=1),
    ):
        with pytest.raises(BatchError, match="does not follow"):
            EventBatch.joined([one, other])


@given(plain_batches(), st.integers(1, 2**40), st.integers(0, 2**40))
def test_renumbered(model: PlainBatch, first: int, time: int) -> None:
    batch = model.build(explicit=True)
    count = batch.last - batch.first + 1
    moved = batch.renumbered(9, 3, first, time, (Run(5, 6, count),))
    assert (moved.stream, moved.epoch, moved.first, moved.last) == (9, 3, first, first + count - 1)
    assert (moved.seqs - np.uint64(first)).tolist() == (
        batch.seqs - np.uint64(batch.first)
    ).tolist()
    assert moved.payloads() == batch.payloads() and moved.keys() == batch.keys()
    assert set(moved.times.tolist()) <= {time}
    assert moved.runs == (Run(5, 6, count),)
    assert moved.wire_size() == len(encoded(moved))
    assert EventBatch.decode(encoded(moved)) == moved


def test_slicing_compares_numbers_exactly() -> None:
    """Compared as floats, these three would be one."""
    start = 2**60
    batch = EventBatch.build(1, start, [b"a", b"b", b"c"], seqs=[start, start + 3, start + 5])
    assert batch.slice(start + 1, start + 4).payloads() == [b"b"]
    last = EventBatch.build(1, MAX_SEQ - 1, [b"y", b"z"])
    assert last.slice(MAX_SEQ, MAX_SEQ).payloads() == [b"z"]


def test_every_slice_of_a_batch_can_be_decoded() -> None:
    """One whose publisher's numbers end beyond the limit could be decoded, and not its end."""
    batch = EventBatch.build(1, 1, [b"a", b"b", b"c"], runs=[Run(9, 2 * MAX_SEQ - 3, 3)])
    for first in (1, 2, 3):
        touch_everything(EventBatch.decode(encoded(batch.slice(first, 3))))


def test_a_batch_of_nothing_but_tombstones() -> None:
    batch = EventBatch.build(1, 5, [], seqs=[], last=9)
    assert (batch.rows, batch.tombstones, batch.events()) == (0, 5, [])
    assert EventBatch.decode(encoded(batch.slice(6, 7))).tombstones == 2


@given(batches())
def test_decoding_copies_nothing(batch: EventBatch) -> None:
    buffer = encoded(batch)
    decoded = EventBatch.decode(buffer)
    (whole,) = decoded.encode()
    assert whole.obj is buffer and len(whole) == len(buffer)
    assert decoded.data.obj is buffer
    memory = np.frombuffer(buffer, dtype=np.uint8)
    columns = [decoded.offsets] if decoded.lengths is None else []
    columns += [decoded.times] if decoded.rows else []
    columns += [decoded.seqs] if decoded.rows and decoded.tombstones else []
    assert all(np.shares_memory(column, memory) for column in columns)


@pytest.mark.parametrize("lengths", [(1, 2), (2, 2), (0, 4), (2**32 - 1, 1)])
def test_lengths_that_do_not_add_up_to_the_data(lengths: tuple[int, int]) -> None:
    buffer = bytearray(encoded(EventBatch.build(1, 1, [b"ab", b"cd"], keys=[b"k", b"l"])))
    pack_into("<2I", buffer, HEADER_BYTES + 8, *lengths)
    if sum(lengths) == 3:
        assert EventBatch.decode(buffer).lengths == lengths
        return
    with pytest.raises(BatchError, match="2 rows of"):
        EventBatch.decode(buffer)


@given(st.integers(1, 40), st.integers(0, 5), st.integers(0, 5), st.randoms())
def test_events_that_are_all_alike_take_no_offsets(
    rows: int, key: int, payload: int, rng: Random
) -> None:
    keys = [rng.randbytes(key) for _ in range(rows)]
    payloads = [rng.randbytes(payload) for _ in range(rows)]
    batch = EventBatch.build(1, 5, payloads, keys=keys)
    assert batch.lengths == batch.longest == (key, payload)
    assert batch.wire_size() == len(encoded(batch)) == HEADER_BYTES + 16 + rows * (key + payload)
    assert (batch.keys(), batch.payloads()) == (keys, payloads)
    if key + payload:
        data = b"".join(k + p for k, p in zip(keys, payloads, strict=True))
        assert EventBatch.even(1, 5, data, key, payload) == batch
        with pytest.raises(BatchError, match="are no events of"):
            EventBatch.even(1, 5, data[:-1] if key + payload > 1 else b"", key, payload)


@given(st.lists(plain_batches(), min_size=1, max_size=4), st.integers(1, 100))
def test_batches_gathered_from_anywhere(models: list[PlainBatch], first: int) -> None:
    parts = [model.build(explicit=False) for model in models]
    if len(parts) > 1 and any(part.tombstones for part in parts):
        with pytest.raises(BatchError, match="tombstones"):
            EventBatch.gathered(9, first, parts)
        return
    whole = EventBatch.gathered(9, first, parts)
    assert (whole.stream, whole.epoch, whole.first, whole.runs) == (9, 0, first, ())
    assert whole.keys() == list(chain.from_iterable(part.keys() for part in parts))
    assert whole.payloads() == [payload for part in parts for payload in part.payloads()]
    assert whole.kinds.tolist() == [kind for part in parts for kind in part.kinds.tolist()]
    assert EventBatch.decode(encoded(whole)) == whole
    assert len(encoded(whole)) == whole.wire_size()


@given(batches(), st.data())
def test_a_slice_copies_no_column(batch: EventBatch, data: st.DataObject) -> None:
    buffer = encoded(batch)
    low = data.draw(st.integers(batch.first, batch.last))
    high = data.draw(st.integers(low, batch.last))
    part = EventBatch.decode(buffer).slice(low, high)
    assert part.data.obj is buffer
    memory = np.frombuffer(buffer, dtype=np.uint8)
    pieces = [piece for piece in part.encode() if len(piece) > LENGTHS_BYTES]
    small = 1 if (low, high) != (batch.first, batch.last) else 0  # the header is new
    small += 1 if small and part.runs else 0
    for piece in pieces[small:]:
        if len(piece):
            assert np.shares_memory(np.frombuffer(piece, dtype=np.uint8), memory)


def test_slicing_to_the_whole_is_the_batch_itself() -> None:
    batch = EventBatch.build(1, 1, [b"a", b"b"])
    assert batch.slice(1, 2) is batch


def test_a_small_slice_pins_the_whole_buffer() -> None:
    buffer = encoded(EventBatch.build(1, 1, [bytes(1000)] * 10))
    part = EventBatch.decode(buffer).slice(3, 3)
    assert part.payload_bytes == 1000
    assert part.pinned_bytes == len(buffer)
    in_a_frame = EventBatch.decode(memoryview(bytes(64) + buffer)[64:])
    assert in_a_frame.slice(3, 3).pinned_bytes == len(buffer) + 64


@given(batches(), st.data())
def test_truncated_or_extended(batch: EventBatch, data: st.DataObject) -> None:
    buffer = encoded(batch)
    with pytest.raises(BatchError):
        EventBatch.decode(buffer[: data.draw(st.integers(0, len(buffer) - 1))])
    with pytest.raises(BatchError):
        EventBatch.decode(buffer + b"\0")


@given(batches(), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1))
def test_damaged_bytes_are_refused_or_make_another_batch(
    batch: EventBatch, damage: list[tuple[int, int]]
) -> None:
    buffer = bytearray(encoded(batch))
    for position, value in damage:
        buffer[position % len(buffer)] = value
    try:
        decoded = EventBatch.decode(buffer)
    except BatchError:
        return
    touch_everything(decoded)


def test_a_great_deal_of_damage_to_the_header() -> None:
    """Random bytes where sizes and bounds are: the part that could lead anywhere."""
    rng = Random(7)
    original = encoded(
        EventBatch.build(3, 10, [b"ab", b"", b"c"], keys=[b"k", b"", b""], seqs=[10, 12, 15],
                         kinds=[0, 1, 0], time=[1, 2, 3], runs=[Run(1, 1, 4), Run(2, 9, 2)])
    )  # fmt: skip
    refused = 0
    for _ in range(20_000):
        buffer = bytearray(original)
        for _ in range(rng.randint(1, 3)):
            buffer[rng.randrange(HEADER_BYTES + 48 + 24)] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        try:
            touch_everything(EventBatch.decode(buffer))
        except BatchError:
            refused += 1
    assert 10_000 < refused < 20_000  # most are caught, harmless ones pass


@given(st.binary(max_size=200))
@example(b"")
def test_arbitrary_bytes(buffer: bytes) -> None:
    with pytest.raises(BatchError):
        EventBatch.decode(buffer)


@pytest.mark.parametrize(
    ("position", "value", "complaint"),
    [(0, 2, "version 2"), (1, 16, "flags 0x10"), (2, 1, "flags"), (24, 0xFF, "cannot cover")],
)
def test_what_a_newer_layout_would_say_is_refused(
    position: int, value: int, complaint: str
) -> None:
    buffer = bytearray(encoded(EventBatch.build(1, 1, [b"a", b"b"])))
    buffer[position] = value
    with pytest.raises(BatchError, match=complaint):
        EventBatch.decode(buffer)


def test_a_batch_covers_at_least_one_number() -> None:
    """One that covers none would be a trap for every handler that trusts first <= last."""
    buffer = bytearray(encoded(EventBatch.build(1, 5, [], seqs=[], last=5)))
    pack_into("<QQ", buffer, 24, 5, 4)
    with pytest.raises(BatchError, match=r"cannot cover 5\.\.4"):
        EventBatch.decode(buffer)


@pytest.mark.parametrize(
    "offsets", [(0, 0, 9, 3, 6), (0, 4, 3, 3, 6), (1, 1, 3, 3, 6), (0, 0, 3, 3, 5)]
)
def test_offsets_that_do_not_ascend_through_the_data(offsets: tuple[int, ...]) -> None:
    buffer = bytearray(encoded(EventBatch.build(1, 1, [b"abcd", b"ef"])))
    pack_into("<5I", buffer, HEADER_BYTES + 8, *offsets)
    with pytest.raises(BatchError, match="do not ascend"):
        EventBatch.decode(buffer)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"payloads": []}, "without events"),
        ({"payloads": [], "seqs": []}, "without events"),
        ({"last": 5}, "2 events for 1..5"),
        ({"first": 0}, "cannot cover 0..1"),
        ({"keys": [b"k"]}, "1 keys for 2 payloads"),
        ({"time": [1, 2, 3]}, "3 times for 2"),
        ({"time": [1]}, "1 times for 2"),
        ({"kinds": [0]}, "1 kinds for 2"),
        ({"kinds": [0, 256]}, "does not fit"),
        ({"seqs": [1]}, "1 sequence numbers for 2"),
        ({"seqs": [2, 1], "last": 2}, "do not ascend"),
        ({"seqs": [1, 1], "last": 2}, "do not ascend"),
        ({"seqs": [1, 9], "last": 5}, "do not ascend inside 1..5"),
        ({"seqs": [-1, 1]}, "does not fit"),
        ({"stream": -1}, "does not fit"),
        ({"stream": 2**64}, "does not fit"),
        ({"epoch": 2**32}, "does not fit"),
        ({"time": 2**63}, "does not fit"),
        ({"runs": [Run(1, 1, 1)]}, "do not add up to the 2"),
        ({"runs": [Run(1, 1, 2), Run(2, 1, 0)]}, "do not add up"),
        ({"runs": [Run(-1, 1, 2)]}, "does not fit"),
        ({"first": 2**64 - 1}, "does not fit"),
        ({"first": MAX_SEQ}, "cannot cover"),
        ({"seqs": [1, MAX_SEQ + 1], "last": MAX_SEQ + 1}, "cannot cover"),
        ({"runs": [Run(1, 2**64 - 2, 2)]}, "a publisher's number"),
        ({"runs": [Run(1, 2 * MAX_SEQ - 1, 2)]}, "a publisher's number"),
        (
            {"payloads": [b""] * 99, "runs": [Run(1, 2**64 - 99 + n, 1) for n in range(99)]},
            "a publisher's number",
        ),
    ],
)
def test_impossible_parts(wrong: dict[str, object], complaint: str) -> None:
    parts = {"stream": 1, "first": 1, "payloads": [b"a", b"b"]}
    with pytest.raises(BatchError, match=complaint):
        EventBatch.build(**(parts | wrong))


@pytest.mark.parametrize(("first", "last"), [(0, 2), (1, 4), (3, 2), (5, 5)])
def test_a_slice_outside_the_batch(first: int, last: int) -> None:
    with pytest.raises(BatchError, match=r"not inside 1\.\.3"):
        EventBatch.build(1, 1, [b"a", b"b", b"c"]).slice(first, last)


def test_equality_looks_at_what_a_batch_says_not_at_how() -> None:
    dense = EventBatch.build(1, 1, [b"a", b"b"], time=5)
    verbose = EventBatch.build(1, 1, [b"a", b"b"], time=[5, 5], seqs=[1, 2], kinds=[0, 0])
    assert dense == verbose
    assert dense != EventBatch.build(1, 1, [b"a", b"c"], time=5)
    assert dense != EventBatch.build(1, 1, [b"a"], seqs=[1], last=2, time=5)
    assert dense != EventBatch.build(1, 1, [b"a", b"b"], time=5, epoch=1)
    assert dense != "something else"
    with pytest.raises(TypeError):
        hash(dense)


def test_events_carry_everything() -> None:
    batch = EventBatch.build(
        9, 4, [b"p", b"g"], keys=[b"k", b""], time=[7, 8], kinds=[EventKind.DATA, EventKind.GC]
    )
    assert batch.events() == [
        Event(stream=9, seq=4, key=b"k", payload=b"p", time=7, kind=EventKind.DATA),
        Event(stream=9, seq=5, key=b"", payload=b"g", time=8, kind=EventKind.GC),
    ]
    assert repr(batch) == "<EventBatch 9:4..5 rows=2>"
