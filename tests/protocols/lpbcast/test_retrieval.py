"""Digests, and fetching what they name (section 3.3)."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import DATA, DATAGRAM, Publication
from epicast.protocols.lpbcast.config import LpbcastConfig
from epicast.protocols.lpbcast.event_ids import EventIds, well_formed
from epicast.protocols.lpbcast.messages import (
    Announcement,
    EventRange,
    Gossip,
    Notification,
    Retrieve,
    Retrieved,
    SourceDigest,
    digest_bytes,
)
from tests.protocols.lpbcast.nodes import (
    ME,
    ROUND,
    batch,
    delivered,
    gossip,
    next_round,
    node,
    publish,
    subscriptions,
    system,
)


def digest(*items):
    return Gossip(digest=tuple(SourceDigest(*item) for item in items))


def asked(single):
    return [(to, message.wanted) for to, message in single.sent(Retrieve)]


def test_a_digest_says_the_last_in_sequence_and_what_is_beyond():
    single = node(1)
    single.receive(1, gossip((1, batch(7, 1, 4)), (1, batch(7, 8, 2)), (1, batch(9, 1))))
    found = {item.source: item for item in next_round(single)[0].digest}
    assert found == {7: SourceDigest(7, 4, ((8, 9),)), 9: SourceDigest(9, 1)}


def test_what_is_missing_is_asked_of_the_informant_then_of_anybody_then_of_the_source():
    single = node(1, retrieve_after_rounds=2)
    single.receive(1, subscriptions(7))
    single.receive(5, digest((7, 2)))
    history = []
    for _ in range(6):
        single.fire("round")
        history.append(asked(single))
    wanted = (EventRange(7, 1, 2),)
    assert history[:2] == [[], [([5], wanted)]]
    [[([anybody], same)]] = history[2:3]
    assert anybody in (1, 7)
    assert same == wanted
    assert history[3:] == [[([7], wanted)], [], []]
    assert single.protocol.statistics()["retrieval_abandoned"] == 2


def test_an_event_that_comes_by_itself_is_not_asked_for():
    single = node(1, retrieve_after_rounds=2)
    single.receive(5, digest((7, 2)))
    single.fire("round")
    single.receive(1, gossip((3, batch(7, 1))))
    single.fire("round")
    assert asked(single) == [([5], (EventRange(7, 2, 2),))]


def test_an_answer_is_delivered_and_passed_on():
    single = node(1)
    single.receive(5, Retrieved((Notification(6, batch(7, 1)),)))
    assert delivered(single) == [(7, 1)]
    assert next_round(single)[0].events[0].age == 7


def test_requests_are_answered_from_what_is_stored():
    single = node(1, max_events=2, max_stored_events=4)
    single.receive(1, gossip((1, batch(7, 1, 6))))
    single.receive(5, Retrieve((EventRange(7, 1, 3), EventRange(8, 1, 1), EventRange(7, 6, 6))))
    [(to, answer, channel)] = single.fx.sends
    assert (to, channel) == ([5], DATAGRAM)
    assert [item.batch.first for item in answer.events] == [3, 6]  # two were too many


def test_large_events_are_announced_and_fetched_over_a_connection():
    owner, other = node(1), node(1)
    owner.receive(1, gossip((3, batch(7, 1, size=5000))))
    [announcement] = next_round(owner)[0].announced
    assert announcement == Announcement(4, EventRange(7, 1, 1))
    assert not next_round(owner)[0].events
    other.receive(9, Gossip(announced=(announcement,)))
    other.fire("round")  # at once: nothing would come by itself
    [([asked_peer], request)] = other.sent(Retrieve)
    assert asked_peer == 9
    owner.receive(100, request)
    [(_, answer, channel)] = owner.fx.sends
    assert channel == DATA
    other.receive(9, answer)
    assert delivered(other) == [(7, 1)]
    assert [len(payload) for payload in other.fx.deliveries[0].payloads()] == [5000]


def test_a_node_that_missed_everything_catches_up_by_digests():
    network = system(8, max_age_rounds=3, retrieve_after_rounds=1)
    network.run(500_000_000)
    network.partition([5])
    for number in range(1, 6):
        network.do(
            3,
            lambda p, fx, n=number: p.on_publish(network.now, [Publication(3, n, batch(3, n))], fx),
        )
    network.run(1_000_000_000)  # by now nobody passes the events on
    assert not network.delivered[5]
    network.partition()
    network.run(1_500_000_000)
    assert sorted(each.first for each in network.delivered[5]) == [1, 2, 3, 4, 5]


def test_what_was_before_its_time_a_newcomer_does_not_ask_for():
    single = node(1, settling_rounds=3, retrieve_after_rounds=0)
    single.receive(1, digest((7, 5000)))
    for _ in range(3):
        single.fire("round")
        assert not asked(single)
    single.receive(1, digest((7, 5002)))
    single.fire("round")
    assert asked(single) == [([1], (EventRange(7, 5001, 5002),))]


def test_what_nobody_had_is_asked_for_again_after_pauses_that_grow():
    single = node(1, retrieve_after_rounds=0)
    rounds_asked = []
    for number in range(300):
        single.receive(1, digest((7, 1)))
        single.fire("round")
        if asked(single):
            rounds_asked.append(number)
    # The informant, anybody; where the source is, nobody knows. Then a pause.
    begins = rounds_asked[::2]
    assert rounds_asked[1::2] == [number + 1 for number in begins]
    pauses = [later - sooner for sooner, later in pairwise(begins)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 10 and pauses[-1] > 50
    assert single.protocol.statistics()["retrieval_abandoned"] >= len(pauses)


def test_pauses_are_forgotten_when_nobody_names_the_events_any_more():
    single = node(1, retrieve_after_rounds=0)
    for _ in range(2):
        single.receive(1, digest((7, 1)))
        waited = 0
        while not single.protocol._retrieval.idle:
            single.fire("round")
            waited += 1
        assert waited < 20  # the second time as the first


def test_an_answer_of_a_long_range_is_as_few_slices_as_it_can_be():
    single = node(1, max_stored_events=500)
    single.receive(1, gossip((1, batch(7, 1, 200, size=20))))
    single.receive(5, Retrieve((EventRange(7, 11, 110),)))
    parts = [item.batch for _, answer in single.sent(Retrieved) for item in answer.events]
    assert [seq for part in parts for seq in range(part.first, part.last + 1)] == [*range(11, 111)]
    assert len(parts) <= 4


def test_of_a_source_met_late_only_the_last_few_are_waited_for():
    single = node(1, late_events=4, retrieve_after_rounds=0)
    single.receive(1, gossip((1, batch(7, 1000))))
    single.receive(1, digest((7, 1000)))
    single.fire("round")
    assert asked(single) == [([1], (EventRange(7, 996, 999),))]


def test_a_question_of_many_ranges_is_several_datagrams_and_all_of_it_is_asked():
    single = node(1, 2, retrieve_after_rounds=0, max_gaps=200)
    for start in (2, 82):
        single.receive(1, gossip(*[(1, batch(7, seq)) for seq in range(start, start + 80, 2)]))
    single.receive(5, digest((7, 161)))
    single.fire("round")
    questions = asked(single)
    assert [to for to, _ in questions] == [[5]] * 3
    assert all(len(ranges) <= 40 for _, ranges in questions)
    wanted = [item.first for _, ranges in questions for item in ranges]
    assert wanted == list(range(1, 162, 2))
    assert single.protocol.statistics()["retrieval_asked"] == len(wanted)


def test_a_question_that_the_budget_forbids_was_not_asked():
    single = node(1, 2, retrieve_after_rounds=0, bytes_per_s=900, max_age_rounds=1)
    publish(single, batch(ME, 1, size=600))
    single.receive(5, digest((7, 2)))
    rounds, counted = [], []
    for number in range(40):
        single.fire("round")
        if asked(single):
            rounds.append((number, asked(single)))
        counted.append(single.protocol.statistics()["retrieval_asked"])
    begin, question = rounds[0]
    assert begin > 3  # gossip had taken all there was
    assert question == [([5], (EventRange(7, 1, 2),))]  # still of the informant
    assert counted == [2 * sum(number <= now for number, _ in rounds) for now in range(40)]


def test_a_digest_names_every_source_in_turn():
    ids = EventIds(LpbcastConfig())
    for source in range(1, 201):
        ids.new_ranges(source, 1, 3)
        if source % 3 == 0:
            ids.new_ranges(source, 9, 9)
    named = [{item.source for item in ids.digest(370)} for _ in range(40)]
    assert set().union(*named) == set(range(1, 201))
    assert all(200 in each for each in named)  # who spoke last is in each of them
    ids.new_ranges(1, 4, 4)
    assert all(1 in {item.source for item in ids.digest(370)} for _ in range(40))


@pytest.mark.parametrize("room", [60, 100, 170])
def test_turns_go_on_however_many_holes_there_are_and_however_little_room(room):
    ids = EventIds(LpbcastConfig())
    for source in range(1, 11):
        for seq in range(2, 40, 2):
            ids.new_ranges(source, seq, seq)
    named = set()
    for _ in range(10):
        items = ids.digest(room)
        assert sum(digest_bytes(len(item.beyond)) for item in items) <= room
        named |= {item.source for item in items}
    assert named == set(range(1, 11))


def test_sixty_publishers_are_not_too_many_to_notice_a_loss():
    """More than a digest has room for; all have been silent for long when the cut is mended."""
    network = system(60, gap=0, view_size=10, max_subs=10, fanout=3, max_age_rounds=6,
                     membership_every=1)  # fmt: skip
    network.run(10 * ROUND)
    network.partition([5])
    for me in range(1, 61):
        if me != 5:
            event = [Publication(me, 1, batch(me, 1))]
            network.do(me, lambda p, fx, event=event: p.on_publish(network.now, event, fx))
    network.run(20 * ROUND)
    assert not network.delivered[5]
    network.partition()
    network.run(40 * ROUND)
    assert {each.stream for each in network.delivered[5]} == set(range(1, 61)) - {5}


def test_malformed_digests_and_requests_are_dropped_and_counted():
    single = node(1, retrieve_after_rounds=0)
    bad = [(7, -1), (-7, 3), (7, 5, ((6, 8),)), (7, 5, ((9, 8),)), (7, 0, ((5, 6), (6, 9)))]
    single.receive(1, digest(*bad))
    assert single.drops() == ["malformed digest"] * 5
    single.receive(1, Retrieve((EventRange(7, 0, 4),)))
    assert single.drops() == ["malformed request"]
    single.receive(1, Gossip(announced=(Announcement(1, EventRange(7, 3, 2)),)))
    assert single.drops() == ["malformed announcement"]


def test_forged_ids_cost_a_bounded_number_of_questions():
    single = node(1, retrieve_after_rounds=0, max_retrievals=10)
    single.receive(1, gossip((1, batch(7, 1))))
    single.receive(1, digest((7, 2**39), (8, 2**38, ((2**38 + 5, 2**39),))))
    single.fire("round")
    wanted = [item for _, ranges in asked(single) for item in ranges]
    assert sum(item.last - item.first + 1 for item in wanted) == 10
    single.receive(1, Retrieve((EventRange(7, 1, 2**63),)))  # and a forged request no time


@settings(max_examples=200, deadline=None)
@given(
    ours=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 4)), max_size=8),
    theirs=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 4)), max_size=8),
    most=st.integers(1, 40),
)
def test_what_is_missing_is_what_plain_sets_say(ours, theirs, most):
    config = LpbcastConfig(late_events=100, settling_rounds=0)
    mine, other = EventIds(config), EventIds(config)
    model = {}
    for ids, ranges in ((mine, ours), (other, theirs)):
        had = model[ids] = set()
        for first, more in ranges:
            new = {n for low, high in ids.new_ranges(7, first, first + more)
                   for n in range(low, high + 1)}  # fmt: skip
            assert new == set(range(first, first + more + 1)) - had
            had |= new
    mine.settle()
    for item in other.digest(10_000):
        assert well_formed(item)
        found = [n for low, high in mine.missing(item, most) for n in range(low, high + 1)]
        lacking = sorted(model[other] - model[mine])
        assert sorted(found) == lacking[-most:]
