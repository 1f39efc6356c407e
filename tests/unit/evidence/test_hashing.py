"""Hashes and ranges against a plain reading of what they should be."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import EventBatch, EventKind
from epicast.evidence import Kind, content_hashes, event_hashes, key_hashes, ranges_of
from epicast.evidence.hashing import content_sum, event_sum

_BLOCK_BITS = 3

rows = st.lists(
    st.tuples(st.binary(max_size=20), st.binary(max_size=20), st.booleans()), max_size=30
)


def build(first: int, content: list[tuple[bytes, bytes, bool]], tail: int) -> EventBatch | None:
    """Every row is followed by a tombstone if it says so, and all of them by `tail`."""
    seqs, seq = [], first
    for _, _, gap in content:
        seqs.append(seq)
        seq += 2 if gap else 1
    last = seq - 1 + tail
    if last < first:
        return None
    keys, payloads = [row[0] for row in content], [row[1] for row in content]
    return EventBatch.build(3, first, payloads, keys=keys, seqs=seqs, last=last, epoch=5)


def alone(key: bytes, payload: bytes) -> int:
    """The content hash of an event in a batch of its own."""
    return int(content_hashes(EventBatch.build(3, 1, [payload], keys=[key]))[0])


@given(st.integers(1, 50), rows, st.integers(0, 30))
def test_ranges_say_what_a_batch_covers(
    first: int, content: list[tuple[bytes, bytes, bool]], tail: int
) -> None:
    batch = build(first, content, tail)
    if batch is None:
        return
    hashes = {
        event.seq: int(
            event_hashes(
                np.array([alone(event.key, event.payload)], np.uint64),
                np.array([event.seq], np.uint64),
            )[0]
        )
        for event in batch.events()
    }
    ranges = ranges_of(batch, _BLOCK_BITS)
    expected = batch.first
    for begin, end, kind, digest in zip(*(column.tolist() for column in ranges), strict=True):
        assert begin == expected <= end
        assert (begin - 1) >> _BLOCK_BITS == (end - 1) >> _BLOCK_BITS
        inside = range(begin, end + 1)
        if kind == Kind.EVENTS:
            assert digest == sum(hashes[seq] for seq in inside) % 2**64
        else:
            assert kind == Kind.TOMBSTONES
            assert digest == 0
            assert not any(seq in hashes for seq in inside)
        expected = end + 1
    assert expected == batch.last + 1


@given(st.integers(1, 50), st.integers(0, 20), st.integers(1, 20), st.integers(1, 30))
def test_sums_of_rows_that_are_alike(first: int, key: int, payload: int, count: int) -> None:
    data = np.random.default_rng(first).bytes((key + payload) * count)
    batch = EventBatch.even(3, first, data, key, payload)
    contents = content_hashes(batch)
    assert content_sum(batch) == int(contents.sum(dtype=np.uint64))
    hashes = event_hashes(contents, batch.seqs.astype(np.uint64))
    assert event_sum(batch) in (None, int(hashes.sum(dtype=np.uint64)))
    assert event_sum(batch) is not None or key + payload < 8
    gap = EventBatch.build(3, 1, [b"12345678"], seqs=[2])
    assert event_sum(gap) is None


def test_what_differs_has_another_hash() -> None:
    events = [(b"", b""), (b"a", b""), (b"", b"a"), (b"ab", b"c"), (b"a", b"bc"), (b"\0", b""),
              (b"\0\0", b""), (b"x" * 8, b""), (b"x" * 7, b"x"), (b"x" * 16, b""),
              (b"x" * 17, b"")]  # fmt: skip
    assert len({alone(*event) for event in events}) == len(events)
    gc = EventBatch.build(3, 1, [b""], keys=[b"a"], kinds=[EventKind.GC])
    assert int(content_hashes(gc)[0]) != alone(b"a", b"")


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=20))
def test_keys_are_hashed_one_by_one(keys: list[bytes]) -> None:
    lengths = np.array([len(key) for key in keys], np.uint32)
    found = key_hashes(b"".join(keys), lengths, len(keys))
    alike = [int(key_hashes(key, lengths[i : i + 1], 1)[0]) for i, key in enumerate(keys)]
    assert found.tolist() == alike
    assert len(set(alike)) == len(set(keys))


def test_lengths_that_are_all_alike() -> None:
    even = EventBatch.even(3, 1, b"abcdefghijkl", 3, 1)
    built = EventBatch.build(3, 1, [b"d", b"h", b"l", b"xy"], keys=[b"abc", b"efg", b"ijk", b"z"])
    assert content_hashes(even).tolist() == content_hashes(built).tolist()[:3]
    one = np.array([3], np.uint32)
    assert len(set(key_hashes(b"abcefgijk", one, 3).tolist())) == 3
