"""Events of one node: delivered once, passed on while there is room, thrown out by rule."""

import pytest

from epicast.core import EventBatch
from epicast.core.effects import Refuse
from tests.protocols.lpbcast.nodes import (
    ME,
    ages,
    batch,
    delivered,
    gossip,
    next_round,
    node,
    publish,
)


def test_an_event_is_delivered_once_and_passed_on_in_every_round():
    single = node(1, 2)
    single.receive(1, gossip((3, batch(7, 1))))
    assert delivered(single) == [(7, 1)]
    single.receive(2, gossip((2, batch(7, 1))))
    assert delivered(single) == []
    assert ages(next_round(single)) == {(7, 1): 4}
    assert ages(next_round(single)) == {(7, 1): 5}
    assert single.protocol.statistics()["duplicates"] == 1


def test_the_greater_of_two_ages_is_kept():
    single = node(1, 2)
    single.receive(1, gossip((1, batch(7, 1, 3))))
    single.receive(1, gossip((5, batch(7, 2))))
    assert ages(next_round(single)) == {(7, 1): 2, (7, 2): 6, (7, 3): 2}
    single.receive(1, gossip((7, batch(7, 1, 3))))
    assert set(ages(next_round(single)).values()) == {8}
    assert single.protocol.statistics()["duplicates"] == 4


def test_a_forged_age_makes_an_event_a_little_older_and_an_absurd_one_is_dropped():
    single = node(1, 2, max_age_rounds=20)
    publish(single, batch(ME, 1, 2))
    single.receive(1, gossip((19, batch(ME, 1, 2))))
    assert set(ages(next_round(single)).values()) == {11}
    single.receive(1, gossip((2**40, batch(ME, 1, 2)), (2**40, batch(9, 1))))
    assert single.drops() == ["implausible age"] * 2
    assert not delivered(single)
    assert set(ages(next_round(single)).values()) == {12}


def test_what_is_published_is_delivered_here_and_gossiped_with_age_one():
    """Section 6.1: the age counts how often it was gossiped."""
    single = node(1, 2)
    publish(single, batch(ME, 1))
    assert delivered(single) == [(ME, 1)]
    assert ages(next_round(single)) == {(ME, 1): 1}


@pytest.mark.parametrize("size", [1, 7, 30])
def test_batching_changes_neither_deliveries_nor_ages(size):
    single = node(1, 2, max_events=20)
    whole = batch(7, 1, 30)
    got = []
    for first in range(1, 31, size):
        part = whole.slice(first, min(30, first + size - 1))
        single.receive(1, gossip((4, part)))
        got += delivered(single)
    assert got == [(7, seq) for seq in range(1, 31)]
    # Equally old: those that came last are kept, however they came.
    assert ages(next_round(single)) == {(7, seq): 5 for seq in range(11, 31)}


def test_overlapping_batches_are_delivered_in_their_new_parts():
    single = node(1, 2)
    single.receive(1, gossip((1, batch(7, 4, 3))))
    single.receive(1, gossip((1, batch(7, 2, 8))))
    assert delivered(single) == [(7, 2), (7, 3), (7, 7), (7, 8), (7, 9)]


def test_an_event_is_passed_on_until_it_is_too_old():
    single = node(1, 2, max_age_rounds=3)
    publish(single, batch(ME, 1))
    assert [bool(ages(next_round(single))) for _ in range(5)] == [True] * 3 + [False] * 2


def test_age_based_purging_throws_out_the_oldest():
    single = node(1, 2, max_events=2, purging="age")
    single.receive(1, gossip((5, batch(7, 1)), (2, batch(8, 1)), (9, batch(9, 1))))
    assert set(ages(next_round(single))) == {(7, 1), (8, 1)}


def test_what_was_purged_before_its_time_is_counted():
    single = node(1, 2, max_events=2, critical_age_rounds=5)
    single.receive(1, gossip((6, batch(7, 1)), (5, batch(8, 1, 2)), (4, batch(9, 1, 3))))
    statistics = single.protocol.statistics()
    assert (statistics["purged"], statistics["purged_young"]) == (4, 1)


def test_out_of_date_events_go_before_old_ones():
    """Fig. 9(a): first what came long before newer events of the same source."""
    single = node(1, 2, max_events=2, long_ago_rounds=3, max_age_rounds=0)
    single.receive(1, gossip((0, batch(7, 1))))
    for _ in range(4):
        next_round(single)
    single.receive(1, gossip((30, batch(8, 1)), (0, batch(7, 2))))
    assert set(ages(next_round(single))) == {(8, 1), (7, 2)}


def test_random_purging_throws_out_any():
    kept = set()
    for seed in range(30):
        single = node(1, 2, seed=seed, max_events=1, purging="random")
        single.receive(1, gossip((5, batch(7, 1)), (2, batch(8, 1)), (9, batch(9, 1))))
        kept |= set(ages(next_round(single)))
    assert kept == {(7, 1), (8, 1), (9, 1)}


def test_a_purged_event_is_not_taken_in_again():
    single = node(1, 2, max_events=1)
    single.receive(1, gossip((5, batch(7, 1)), (2, batch(8, 1))))
    single.receive(1, gossip((5, batch(7, 1))))
    assert delivered(single) == []
    assert set(ages(next_round(single))) == {(8, 1)}


def test_publishing_too_much_waits_instead_of_being_purged():
    single = node(1, 2, max_events=12, critical_age_rounds=6, max_waiting=50)
    publish(single, batch(ME, 1, 50))
    assert single.protocol.publish_room() == 2  # the rate is 12 / 6 to begin with
    seen = set()
    for _ in range(200):
        seen |= set(ages(next_round(single)))
    assert seen == {(ME, seq) for seq in range(1, 51)}
    assert single.protocol.publish_room() == 50


def test_the_publish_rate_falls_when_events_are_purged_too_young():
    single = node(1, 2, max_events=10, critical_age_rounds=5)
    before = single.protocol.statistics()["publish_rate"]
    for round_number in range(20):
        single.receive(1, gossip((1, batch(7, 1 + 10 * round_number, 10))))
        next_round(single)
    assert single.protocol.statistics()["publish_rate"] < before / 4


def test_the_smallest_buffer_in_the_system_counts():
    """Adaptive gossip: a node with plenty of room slows down for one that has none."""
    rates = []
    for smallest in (0, 5):
        single = node(1, 2, max_events=100, critical_age_rounds=5)
        for round_number in range(20):
            message = gossip((1, batch(7, 1 + 5 * round_number, 5)))
            message.smallest_buffer = smallest
            single.receive(1, message)
            sent = next_round(single)
        rates.append(single.protocol.statistics()["publish_rate"])
        assert sent[0].smallest_buffer == (smallest or 100)
    assert rates[1] < rates[0] / 4


def test_a_small_buffer_that_is_not_heard_of_again_is_forgotten():
    single = node(1, 2, max_events=100, critical_age_rounds=5)
    message = gossip((1, batch(7, 1)))
    message.smallest_buffer = 5
    single.receive(1, message)
    said = [next_round(single)[0].smallest_buffer for _ in range(45)]
    assert said[:20] == [5] * 20
    assert said[-1] == 100


def test_the_publish_rate_rises_again_for_who_has_more_to_publish():
    single = node(1, 2, max_events=20, critical_age_rounds=5, max_age_rounds=8, max_waiting=5000)
    for round_number in range(20):
        single.receive(1, gossip((1, batch(7, 1 + 20 * round_number, 20))))
        next_round(single)
    slow = single.protocol.statistics()["publish_rate"]
    for _ in range(20):
        next_round(single)
    assert single.protocol.statistics()["publish_rate"] == slow  # nothing waits
    publish(single, batch(ME, 1, 3000))
    rates = []
    for _ in range(100):
        next_round(single)
        rates.append(single.protocol.statistics()["publish_rate"])
    assert max(rates) > 20 * slow
    assert max(rates) <= 20  # not more than the buffer holds


def test_a_buffer_that_is_full_of_bytes_slows_publishers_down_too():
    rates = []
    for size in (50, 100_000):
        single = node(1, 2, max_events=200, critical_age_rounds=6)
        for round_number in range(20):
            events = [(1, batch(7, 1 + 10 * round_number + i, 1, size)) for i in range(10)]
            single.receive(1, gossip(*events))
            [message, *_] = next_round(single)
        rates.append(single.protocol.statistics()["publish_rate"])
        assert message.smallest_buffer == (200 if size == 50 else 10)  # 1 MiB is what there is
        young = single.protocol.statistics()["purged_young"]
        assert young == (0 if size == 50 else 190)
    assert rates[1] < rates[0] / 4


def refusals(single):
    return [op.error for op in single.fx.operations if isinstance(op, Refuse)]


def test_an_event_beyond_the_limit_is_refused():
    single = node(1, max_event_bytes=100)
    publish(single, batch(ME, 1, 2, size=101))
    assert refusals(single) == ["an event of 101 bytes; max_event_bytes is 100"]
    assert delivered(single) == []
    publish(single, batch(ME, 1, 2, size=100))
    assert delivered(single) == [(ME, 1), (ME, 2)]


def test_tombstones_are_refused_and_dropped():
    buried = EventBatch.build(ME, 1, [b"x"], seqs=[1], last=2**40)
    single = node(1)
    publish(single, buried)
    assert "no tombstones" in refusals(single)[0]
    single.receive(1, gossip((1, buried)))
    assert single.drops() == ["malformed notification"]
    assert delivered(single) == []
    single.receive(1, gossip((1, batch(7, 1, 2))))
    single.receive(1, gossip((1, EventBatch.build(7, 1, [b"x"], seqs=[1], last=2))))
    assert single.drops() == ["malformed notification"]
