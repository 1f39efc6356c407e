"""An agent's view of a stream, and its buffer, compared with plain sets of numbers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.protocols.sprinkler.following import Following, Outstanding
from epicast.protocols.sprinkler.messages import Answer
from epicast.protocols.sprinkler.recent import RecentBatches
from tests.protocols.sprinkler.parts import INFO, counter, events, numbers

ROOMY = 1 << 20


def following(start: int = 0, early: int = ROOMY) -> Following:
    return Following(INFO, counter(start), RecentBatches(ROOMY), early)


RANGES = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 12)), max_size=60)


@settings(max_examples=300, deadline=None)
@given(ranges=RANGES)
def test_whatever_order_things_come_in_they_are_delivered_once_and_in_order(ranges):
    us, arrived, delivered = following(), set(), []
    for first, count in ranges:
        delivered += numbers(us.arrive(events(first, count)))
        arrived |= set(range(first, first + count))
        end = 0
        while end + 1 in arrived:
            end += 1
        assert delivered == list(range(1, end + 1))
        assert us.end == end
        assert us.asked >= us.end
        missing = [n for a, b in us.missing(1, 80) for n in range(a, b + 1)]
        assert missing == [n for n in range(1, 81) if n not in arrived]


@settings(max_examples=200, deadline=None)
@given(ranges=RANGES, early=st.integers(0, 600))
def test_without_room_for_the_early_nothing_wrong_is_delivered_and_all_is_known_to_be_missing(
    ranges, early
):
    us, delivered = following(early=early), []
    for first, count in ranges:
        delivered += numbers(us.arrive(events(first, count)))
        assert us._early_bytes <= early
    assert delivered == list(range(1, us.end + 1))
    for first, last in us.missing(1, 80):  # whoever is asked for just that completes it
        delivered += numbers(us.arrive(events(first, last - first + 1)))
    assert delivered == list(range(1, us.end + 1))
    assert us.end >= 80
    assert not us.crowded


def test_what_comes_early_and_finds_no_room_makes_it_crowded_until_the_room_is_free():
    us = following(early=150)
    us.arrive(events(5))
    us.arrive(events(9, 3))
    assert us.crowded
    us.arrive(events(1, 4))
    assert (us.end, us.crowded) == (5, False)


def test_events_of_another_epoch_are_not_taken():
    us = following()
    assert us.arrive(events(1, 3, epoch=2)) == []
    assert us.end == 0


def ask(us: Following, peer: int, first: int, last: int, deadline: int = 100) -> None:
    us.outstanding.append(Outstanding(peer, first, last, deadline))
    us.asked = max(us.asked, last)


def test_holes_are_what_an_answer_does_not_have_not_what_found_no_room():
    us = following(early=1)
    answer = Answer(counter(30), 5, 12, (events(7, 2),))
    for batch in answer.batches:
        us.arrive(batch)
    assert us.missing(5, 12) == [(5, 12)]
    assert us.holes(answer) == [(5, 6), (9, 12)]


def test_unasked_is_what_is_missing_and_nobody_was_asked_for():
    us = following()
    us.arrive(events(10, 2))
    ask(us, 5, 3, 6)
    assert us.unasked(14) == [(1, 2), (7, 9), (12, 14)]


def test_an_answer_settles_what_it_is_about_and_leaves_the_rest_to_be_asked_again():
    us = following()
    ask(us, 5, 1, 10)
    ask(us, 6, 1, 10)
    assert us.settle(5, 3, 6) == (7, 10)
    assert [(e.peer, e.first, e.last) for e in us.outstanding] == [(5, 1, 2), (6, 1, 10)]


def test_overdue_is_what_was_asked_too_long_ago_or_of_somebody_who_is_gone():
    us = following()
    ask(us, 5, 1, 5, deadline=100)
    ask(us, 6, 6, 9, deadline=200)
    assert us.overdue(99) == []
    us.give_up(6)
    assert [e.peer for e in us.overdue(50)] == [6]
    assert [e.peer for e in us.overdue(100)] == [5]
    assert us.outstanding == []


def test_a_new_epoch_forgets_the_old_one():
    us = following()
    us.arrive(events(5, 2))
    ask(us, 5, 1, 4)
    us.restart(counter(0, 2), RecentBatches(ROOMY))
    assert (us.end, us.asked, us.outstanding, us.missing(1, 9)) == (0, 0, [], [(1, 9)])
    assert numbers(us.arrive(events(1, 2, epoch=2))) == [1, 2]


# -- the newest events at hand ----------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=40),
    most=st.integers(0, 1500),
    wanted=st.tuples(st.integers(1, 200), st.integers(0, 60)),
    budget=st.integers(0, 1000),
)
def test_recent_batches_keep_the_newest_and_give_what_was_asked_for(counts, most, wanted, budget):
    recent, batches, first = RecentBatches(most), [], 1
    for count in counts:
        batch = events(first, count)
        recent.add(batch)
        batches.append(batch)
        first += count
    kept, size = [], 0
    for batch in reversed(batches):  # the model: the newest that fit, none skipped
        size += batch.wire_size()
        if size > most:
            break
        kept.insert(0, batch)
    assert (recent.first, recent.last) == ((kept[0].first, kept[-1].last) if kept else (0, 0))
    low, high = wanted[0], wanted[0] + wanted[1]
    here = [n for n in numbers(kept) if low <= n <= high]
    found = recent.read(low, high, budget)
    assert numbers(found) == here[: len(numbers(found))]
    assert bool(found) == bool(here)
    assert len(found) <= 1 or sum(batch.wire_size() for batch in found) <= budget


def test_what_does_not_continue_starts_anew():
    recent = RecentBatches(ROOMY)
    recent.add(events(1, 3))
    recent.add(events(9, 2))
    assert (recent.first, recent.last) == (9, 10)
    recent.add(events(11, epoch=2))
    assert numbers(recent.read(1, 99, ROOMY)) == [11]
