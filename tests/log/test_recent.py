"""The buffer of a peer: the newest events, filtered like any history, never too many of them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import Event, EventBatch, EventKind
from epicast.log import GcPolicy
from epicast.log.recent import FilteredBuffer
from tests.log import reference
from tests.log.streams import STREAM, batch_sizes, events, in_batches, policies

LATEST = GcPolicy(latest_per_key=True)
LARGE = 1 << 20


def keyed(first: int, count: int, *, epoch: int = 0, size: int = 10) -> EventBatch:
    return EventBatch.build(
        STREAM, first, [bytes(size)] * count, keys=[b"k%d" % (n % 5) for n in range(count)],
        epoch=epoch,
    )  # fmt: skip


def covered(batches: list[EventBatch]) -> tuple[int, int]:
    for left, right in pairwise(batches):
        assert left.last + 1 == right.first
    return (batches[0].first, batches[-1].last) if batches else (0, 0)


def live(batches: list[EventBatch]) -> list[Event]:
    return [event for batch in batches for event in batch.events()]


@settings(max_examples=60)
@given(events(), policies, batch_sizes, st.data())
def test_reads_are_what_the_reference_filter_leaves(
    stream: list[Event], policy: GcPolicy, sizes: list[int], data: st.DataObject
) -> None:
    buffer = FilteredBuffer(STREAM, LARGE, policy)
    assert (buffer.first, buffer.last, buffer.read(1, 99, LARGE)) == (0, 0, [])
    so_far: list[Event] = []
    for batch in in_batches(stream, sizes):
        buffer.add(batch)
        so_far = stream[: batch.last]
        assert (buffer.first, buffer.last) == (1, batch.last)
        if data.draw(st.booleans()):
            first, last = sorted(data.draw(st.tuples(st.integers(1, 70), st.integers(1, 70))))
            found = buffer.read(first, last, LARGE)
            last = min(last, batch.last)
            assert covered(found) == ((first, last) if first <= last else (0, 0))
            wanted = reference.live(so_far, policy)
            assert live(found) == [event for event in wanted if first <= event.seq <= last]


def test_until_it_can_filter_events_are_handed_out_as_they_came() -> None:
    loaded = False
    buffer = FilteredBuffer(STREAM, LARGE, LATEST, lambda: loaded)
    for first in range(1, 31, 10):
        buffer.add(keyed(first, 10))
    found = buffer.read(5, 25, LARGE)
    assert covered(found) == (5, 25) and len(live(found)) == 21
    assert covered(buffer.read(5, 25, 1)) == (5, 10)
    loaded = True
    found = buffer.read(5, 30, LARGE)
    assert covered(found) == (5, 30) and len(live(found)) == 5


def test_a_gap_or_another_epoch_starts_anew() -> None:
    for other in (keyed(12, 3), keyed(5, 3), keyed(11, 3, epoch=1)):
        for read_before in (False, True):
            buffer = FilteredBuffer(STREAM, LARGE, LATEST)
            buffer.add(keyed(1, 10))
            if read_before:
                buffer.read(1, 10, LARGE)
            buffer.add(other)
            assert (buffer.first, buffer.last) == (other.first, other.last)
            found = buffer.read(1, 99, LARGE)
            assert covered(found) == (other.first, other.last)
            assert found[0].epoch == other.epoch


def test_unread_it_keeps_batches_as_they_are() -> None:
    buffer = FilteredBuffer(STREAM, LARGE, LATEST)
    for first in range(1, 1001, 10):
        buffer.add(keyed(first, 10))
    assert buffer._history is None
    assert buffer.bytes == sum(len(b) for b in keyed(1, 10).encode()) * 100


def test_the_bound_holds_whether_it_is_read_or_not() -> None:
    for every in (0, 1, 7, 400):
        buffer = FilteredBuffer(STREAM, 100_000)
        for number in range(1000):
            buffer.add(keyed(1 + 10 * number, 10, size=50))
            assert buffer.bytes <= 100_000
            assert buffer.last == 10 * number + 10
            if every and number % every == 0:
                found = buffer.read(1, buffer.last, LARGE)
                assert covered(found) == (buffer.first, buffer.last)
        assert 1 < buffer.first < 10_000 - 300, "about half of it is always used"


def test_reading_makes_old_events_fit() -> None:
    """Collected events take no room, so far more numbers are covered than without filtering."""
    buffers = [FilteredBuffer(STREAM, 100_000, policy) for policy in (LATEST, GcPolicy())]
    for number in range(1000):
        for buffer in buffers:
            buffer.add(keyed(1 + 10 * number, 10, size=50))
            buffer.read(buffer.last, buffer.last, 1000)
    filtered, plain = buffers
    assert filtered.first == 1 < 5000 < plain.first
    assert len(live(filtered.read(1, 10_000, LARGE))) == 5


def test_what_nobody_has_read_for_long_is_not_filtered() -> None:
    buffer = FilteredBuffer(STREAM, 100_000, LATEST)
    buffer.add(keyed(1, 10))
    buffer.read(1, 10, LARGE)
    assert buffer._history is not None
    for number in range(1, 1000):
        buffer.add(keyed(1 + 10 * number, 10, size=50))
    assert buffer._history is None


def test_reads_are_bounded_and_cut() -> None:
    buffer = FilteredBuffer(STREAM, LARGE)
    for first in range(1, 10_001, 1000):
        buffer.add(keyed(first, 1000))
    found = buffer.read(500, 9000, 20_000)
    assert sum(batch.wire_size() for batch in found) <= 20_000
    assert covered(found)[0] == 500
    assert covered(buffer.read(500, 2700, LARGE)) == (500, 2700)
    assert covered(buffer.read(9990, 20_000, LARGE)) == (9990, 10_000)
    assert buffer.read(10_001, 20_000, LARGE) == []
    assert len(buffer.read(1, 10_000, 1)) == 1


def views(batches: list[EventBatch], block_bytes: int) -> list[EventBatch]:
    """The same batches as views of one block, as they are received."""
    block = bytearray(block_bytes)
    found, at = [], 0
    for batch in batches:
        encoded = b"".join(batch.encode())
        block[at : at + len(encoded)] = encoded
        found.append(EventBatch.decode(memoryview(block)[at : at + len(encoded)]))
        at += len(encoded)
    return found


def test_a_block_full_of_batches_is_kept_and_counts_as_a_whole() -> None:
    buffer = FilteredBuffer(STREAM, LARGE)
    batches = [keyed(first, 10) for first in range(1, 101, 10)]
    used = sum(batch.wire_size() for batch in batches)
    for batch in views(batches, used * 3 // 2):
        buffer.add(batch)
    buffer.add(keyed(101, 1))
    assert buffer.bytes == used * 3 // 2 + keyed(101, 1).wire_size()
    assert covered(buffer.read(1, 101, LARGE)) == (1, 101)


def test_a_small_batch_does_not_pin_a_large_block() -> None:
    buffer = FilteredBuffer(STREAM, 100_000)
    kept = []
    for first in range(1, 1001, 10):
        kept += views([keyed(first, 10)], 1 << 16)
        buffer.add(kept[-1])
    assert buffer.first == 1, "all of it fits, since it was copied"
    pinned = {id(batch.data.obj) for block in buffer._blocks for batch in block.batches}
    assert len(pinned & {id(batch.data.obj) for batch in kept}) == 1, "only the newest block"


def test_a_block_larger_than_the_buffer() -> None:
    buffer = FilteredBuffer(STREAM, 64 << 10)
    for batch in views([keyed(first, 10) for first in range(1, 5001, 10)], 1 << 20):
        buffer.add(batch)
        assert buffer.bytes <= 64 << 10
    assert 1 < buffer.first < 5000 == buffer.last
    assert covered(buffer.read(1, 5000, LARGE)) == (buffer.first, 5000)


def test_a_batch_no_history_takes_empties_the_buffer() -> None:
    buffer = FilteredBuffer(STREAM, LARGE, LATEST)
    buffer.add(keyed(1, 10))
    buffer.add(EventBatch.build(STREAM, 11, [b"no predicate"], kinds=[EventKind.GC]))
    assert buffer.read(1, 11, LARGE) == []
    assert (buffer.first, buffer.last, buffer.bytes) == (0, 0, 0)
    buffer.add(keyed(12, 3))
    assert covered(buffer.read(1, 20, LARGE)) == (12, 14)
