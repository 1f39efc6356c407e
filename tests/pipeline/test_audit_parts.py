"""The parts an audit is made of, each against something plain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.pipeline.audit.intervals import Ranges, contains, numbers_in, size, split, union
from epicast.pipeline.audit.links import KeyEnds, link_across, sorted_by_hash
from epicast.pipeline.audit.packing import pack, unpack
from epicast.pipeline.audit.staleness import histogram, percentile
from epicast.pipeline.audit.watching import watched
from epicast.pipeline.errors import SparkFailed

pairs = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20)), max_size=12)


def ranges_of(given_pairs: list[tuple[int, int]]) -> Ranges:
    first = np.array([first for first, _ in given_pairs], dtype=np.int64)
    return Ranges(first, first + np.array([more for _, more in given_pairs], dtype=np.int64))


@settings(max_examples=100, deadline=None)
@given(pairs)
def test_ranges_are_sets_of_numbers(some: list[tuple[int, int]]) -> None:
    ranges = ranges_of(some)
    listed = [n for first, more in some for n in range(first, first + more + 1)]
    numbers, index = numbers_in(ranges)
    assert numbers.tolist() == listed
    assert [some[at][0] <= n <= sum(some[at]) for n, at in zip(numbers, index, strict=True)] == [
        True
    ] * len(listed)
    together = union(ranges)
    assert numbers_in(together)[0].tolist() == sorted(set(listed))
    assert size(together) == len(set(listed))
    asked = np.arange(0, 90)
    assert contains(together, asked).tolist() == [n in set(listed) for n in range(90)]


@settings(max_examples=100, deadline=None)
@given(pairs, st.integers(0, 6))
def test_split_at_the_ends_of_blocks(some: list[tuple[int, int]], bits: int) -> None:
    ranges = ranges_of(some)
    parts, index = split(ranges, bits)
    assert ((parts.first - 1) >> bits == (parts.last - 1) >> bits).all()
    numbers, part = numbers_in(parts)
    whole, origin = numbers_in(ranges)
    assert numbers.tolist() == whole.tolist()
    assert index[part].tolist() == origin.tolist()


def test_packed_arrays() -> None:
    arrays = [np.arange(3, dtype=np.uint8), np.empty(0, np.int64), np.arange(4, dtype=np.uint64)]
    back = unpack(pack(*arrays), np.uint8, np.int64, np.uint64)
    assert [each.tolist() for each in back] == [each.tolist() for each in arrays]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=200), st.sampled_from([0.5, 0.99, 0.1]))
def test_percentiles_are_a_little_too_large(ages: list[int], share: float) -> None:
    exact = sorted(ages)[max(1, int(np.ceil(share * len(ages)))) - 1]
    counts = histogram(np.array(ages), np.ones(len(ages), dtype=np.int64))
    found = percentile(counts, share, max(ages))
    assert exact <= found <= max(exact * (1 + 1 / 64) + 1, exact)


def test_ages_below_zero_count_as_none() -> None:
    counts = histogram(np.array([-5, 0, 1]), np.array([2, 3, 4]))
    assert counts[0] == 9
    assert percentile(counts, 0.5, 1) == 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 2**63, 2**63 + 1, 2**64 - 1]), max_size=60))
def test_sorting_keeps_the_order_of_equal_hashes(hashes: list[int]) -> None:
    """Among them hashes that differ only in the bits that give way to the position."""
    given_hashes = np.array(hashes, dtype=np.uint64)
    expected = np.argsort(given_hashes, kind="stable")
    assert sorted_by_hash(given_hashes).tolist() == expected.tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 10))
def test_links_from_one_stretch_to_the_next(keys: list[int], stretch: int) -> None:
    ends = []
    for low in range(0, len(keys), stretch):
        part = keys[low : low + stretch]
        for key in set(part):
            at = [low + i + 1 for i, other in enumerate(part) if other == key]
            ends.append((key, at[0], at[-1], 100 * at[0]))
    table = np.array(ends, dtype=np.int64).reshape(-1, 4)
    found = link_across(KeyEnds(table[:, 0].astype(np.uint64), *table[:, 1:].T))
    expected = {}
    for seq, key in enumerate(keys, 1):
        later = [s for s in range(seq + 1, len(keys) + 1) if keys[s - 1] == key]
        if later and (later[0] - 1) // stretch != (seq - 1) // stretch:
            expected[seq] = (later[0], 100 * later[0])
    linked = zip(found.seqs.tolist(), found.nexts.tolist(), found.times.tolist(), strict=True)
    assert {seq: (after, time) for seq, after, time in linked} == expected


def test_failures_are_one_sentence(spark: Any) -> None:
    def full() -> None:
        raise RuntimeError("Job aborted\n java.io.IOException: No space left on device\n\tat x.y")

    with pytest.raises(SparkFailed, match=r"the disk is full: .* SPARK_LOCAL_DIRS"):
        watched(spark.sparkContext, "judge", full, None)

    def broken(number: int) -> int:
        raise ValueError("something odd")

    job = spark.sparkContext.parallelize([1], 1).map(broken)
    with pytest.raises(SparkFailed, match="the survey step of the audit failed") as error:
        watched(spark.sparkContext, "survey", job.collect, None)
    assert "\n" not in str(error.value)
    assert "ValueError: something odd" in str(error.value)
