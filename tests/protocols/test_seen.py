"""`SeenEvents` against a set of numbers per source."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.protocols import seen as module
from epicast.protocols.seen import SeenEvents

JUMP = 6
sources = st.integers(1, 4)
ranges = st.tuples(st.integers(1, 30), st.integers(0, 8)).map(lambda pair: (pair[0], sum(pair)))
scripts = st.lists(st.tuples(sources, ranges), max_size=60)


def runs(numbers: set[int]) -> list[tuple[int, int]]:
    """A set of numbers as ranges."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def had(seen: SeenEvents, source: int, upto: int = 50) -> list[tuple[int, int]]:
    lacking = {n for low, high in seen.lacking(source, 1, upto) for n in range(low, high + 1)}
    return runs(set(range(1, upto + 1)) - lacking)


class Model:
    """Sets, with both bounds applied in the plainest way."""

    def __init__(self, max_sources: int, max_gaps: int) -> None:
        self.max_sources = max_sources
        self.max_gaps = max_gaps
        self.had: dict[int, set[int]] = {}
        self.last_use: list[int] = []
        self.given_up: list[tuple[str, int, int, int]] = []

    def new_ranges(self, source: int, first: int, last: int) -> list[tuple[int, int]]:
        had = self.had.get(source, set())
        new = set(range(first, last + 1)) - had
        if not new:
            return []
        had = self.had[source] = had | new
        self.last_use = [other for other in self.last_use if other != source] + [source]
        missing = runs(set(range(1, max(had) + 1)) - had)
        if len(missing) > self.max_gaps:
            jumps = [index for index, (low, high) in enumerate(missing) if high - low >= JUMP]
            beyond = missing[jumps[-1] + 1 :] if jumps else missing
            low, high = beyond[0] if beyond else missing[-1]
            self.given_up.append(("gap", source, low, high))
            had.update(range(low, high + 1))
        if len(self.had) > self.max_sources:
            quietest = self.last_use.pop(0)
            self.given_up.append(("source", quietest, 1, max(self.had.pop(quietest))))
        return runs(new)


@given(scripts, st.integers(1, 5), st.integers(1, 6))
def test_the_same_as_sets_of_numbers(script, max_sources, max_gaps):
    with patch.object(module, "_JUMP", JUMP):
        _compare(script, max_sources, max_gaps)


def _compare(script, max_sources, max_gaps):
    seen, model = SeenEvents(max_sources, max_gaps), Model(max_sources, max_gaps)
    for source, (first, last) in script:
        expected = model.new_ranges(source, first, last)
        assert list(seen.new_ranges(source, first, last)) == expected
        assert seen.given_up == model.given_up
        assert seen.sources == len(model.had)
        for each in range(1, 5):
            numbers = model.had.get(each, set())
            assert had(seen, each) == runs(numbers)
            assert seen.newest(each) == max(numbers, default=0)
        assert seen.covers(source, first, last) == (
            set(range(first, last + 1)) <= model.had.get(source, set())
        )


@given(scripts)
def test_within_the_bounds_nothing_is_new_twice_and_nothing_is_missed(script):
    seen = SeenEvents(max_sources=4, max_gaps=40)
    had: set[tuple[int, int]] = set()
    for source, (first, last) in script:
        told = {
            (source, number)
            for low, high in seen.new_ranges(source, first, last)
            for number in range(low, high + 1)
        }
        assert told == {(source, number) for number in range(first, last + 1)} - had
        had |= told
    assert seen.given_up == []


@given(st.lists(ranges, max_size=200), st.integers(1, 4))
def test_memory_per_source_is_bounded_however_holey_it_gets(script, max_gaps):
    seen = SeenEvents(max_sources=1, max_gaps=max_gaps)
    for first, last in script:
        seen.new_ranges(1, first * 3, last * 3)
        assert len(had(seen, 1)) <= max_gaps + 1


def test_a_source_in_order_is_one_number():
    seen = SeenEvents(10, 10)
    for number in range(1, 1000):
        assert list(seen.new_ranges(7, number, number)) == [(number, number)]
        assert not seen.new_ranges(7, number, number)
    assert had(seen, 7, 2000) == [(1, 999)]
    assert seen._beyond == {}


def test_the_quietest_source_is_displaced_and_its_events_are_new_again():
    seen = SeenEvents(max_sources=2, max_gaps=5)
    seen.new_ranges(1, 1, 5)
    seen.new_ranges(2, 3, 4)
    seen.new_ranges(1, 6, 6)
    seen.new_ranges(3, 1, 1)
    assert seen.given_up == [("source", 2, 1, 4)]
    assert had(seen, 2) == []
    assert list(seen.new_ranges(2, 3, 4)) == [(3, 4)]
    assert seen.given_up[1:] == [("source", 1, 1, 6)]


def test_the_oldest_hole_is_given_up_for_lost():
    seen = SeenEvents(max_sources=2, max_gaps=2)
    for number in (2, 4, 6):
        seen.new_ranges(1, number, number)
    assert seen.given_up == [("gap", 1, 1, 1)]
    assert not seen.new_ranges(1, 1, 1)
    assert list(seen.new_ranges(1, 1, 6)) == [(3, 3), (5, 5)]


@pytest.mark.parametrize("step", [2, 900, 5000])
def test_numbers_far_ahead_do_not_close_the_hole_that_the_source_fills_next(step):
    seen = SeenEvents(max_sources=2, max_gaps=8)
    seen.new_ranges(1, 1, 5)
    seen.new_ranges(1, 7, 7)  # the next one is late
    for number in range(100):
        seen.new_ranges(1, 10**6 + step * number, 10**6 + step * number)
    assert {reason for reason, *_ in seen.given_up} == {"gap"}
    assert list(seen.new_ranges(1, 1, 1000)) == [(6, 6), (8, 1000)]


def test_who_came_late_gives_up_the_oldest_hole_since():
    seen = SeenEvents(max_sources=2, max_gaps=3)
    for number in (5000, 5002, 5004, 5006):
        seen.new_ranges(1, number, number)
    assert seen.given_up == [("gap", 1, 5001, 5001)]
    assert list(seen.new_ranges(1, 4990, 5006)) == [(4990, 4999), (5003, 5003), (5005, 5005)]


@pytest.mark.parametrize("first", [1, 5])
def test_huge_numbers_cost_nothing(first):
    seen = SeenEvents(2, 2)
    assert list(seen.new_ranges(1, first, 2**63)) == [(first, 2**63)]
    assert list(seen.new_ranges(1, 2**62, 2**63 + 1)) == [(2**63 + 1, 2**63 + 1)]
