"""`IntervalSet` against a plain set of integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import IntervalSet
from epicast.core.intervals import Interval

LOW, HIGH = -5, 45
points = st.integers(LOW, HIGH)


@st.composite
def ranges(draw: st.DrawFn) -> Interval:
    first = draw(points)
    return first, draw(st.integers(first, HIGH))


operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), ranges()),
        st.tuples(st.just("add_new"), ranges()),
        st.tuples(st.just("remove_below"), points),
    ),
    max_size=25,
)


def numbers(intervals: list[Interval]) -> set[int]:
    return {n for first, last in intervals for n in range(first, last + 1)}


def runs(values: set[int]) -> list[Interval]:
    """The maximal runs of consecutive numbers."""
    return [
        (n, next(m for m in range(n, HIGH + 2) if m + 1 not in values))
        for n in sorted(values)
        if n - 1 not in values
    ]


@given(operations)
def test_changes_agree_with_a_set(script: list[tuple[str, object]]) -> None:
    subject, model = IntervalSet(), set[int]()
    for name, argument in script:
        if name == "add":
            wanted = numbers([argument])
            assert subject.add(*argument) == bool(wanted - model)
            model |= wanted
        elif name == "add_new":
            wanted = numbers([argument])
            assert list(subject.add_new(*argument)) == runs(wanted - model)
            model |= wanted
        else:
            subject.remove_below(argument)
            model = {n for n in model if n >= argument}
        assert list(subject) == runs(model)  # sorted, disjoint, never adjacent


@given(st.lists(ranges(), max_size=12), ranges(), points)
def test_questions_agree_with_a_set(intervals: list[Interval], asked: Interval, start: int) -> None:
    subject, model = IntervalSet(intervals), numbers(intervals)
    assert subject.covers(*asked) == (numbers([asked]) <= model)
    assert subject.missing(*asked) == runs(numbers([asked]) - model)
    assert (start in subject) == (start in model)
    assert subject.total() == len(model)
    assert len(subject) == len(runs(model))
    assert subject.gaps == max(0, len(runs(model)) - 1)
    expected_end = start - 1
    while expected_end + 1 in model:
        expected_end += 1
    assert subject.contiguous_end(start) == expected_end


@given(st.lists(ranges(), max_size=12), st.randoms(use_true_random=False))
def test_equal_whatever_the_order_of_insertion(intervals: list[Interval], rng: object) -> None:
    shuffled = list(intervals)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert IntervalSet(intervals) == IntervalSet(shuffled)


def test_different_sets_are_not_equal() -> None:
    assert IntervalSet([(1, 3)]) != IntervalSet([(1, 2)])
    assert IntervalSet([(1, 3)]) != [(1, 3)]


def test_a_range_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before it starts"):
        IntervalSet().add(5, 4)


def test_numbers_beyond_64_bits_are_fine() -> None:
    subject = IntervalSet([(2**64 - 2, 2**64 - 1)])
    assert subject.add(2**64, 2**64) and list(subject) == [(2**64 - 2, 2**64)]


def test_the_text_form_can_be_read_back() -> None:
    subject = IntervalSet([(1, 3), (7, 9)])
    assert eval(repr(subject)) == subject
