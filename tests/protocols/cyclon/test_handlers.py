import pytest

from epicast.core import DATAGRAM, ConfigError, InvariantViolation, Peer
from epicast.protocols.cyclon import CyclonConfig
from epicast.protocols.cyclon.messages import (
    Entry,
    JoinRequest,
    JoinSwap,
    JoinWalk,
    ShuffleAnswer,
    ShuffleRequest,
)
from tests.protocols.cyclon.nodes import ME, entries, node

FULL = ((1, 5), (2, 9), (3, 2), (4, 0))


def request_of(single):
    single.fire("shuffle")
    ((partner, message),) = single.sends
    return partner, message


def test_oldest_neighbour_is_asked_and_removed():
    single = node(*FULL)
    partner, request = request_of(single)
    assert partner == 2
    assert sorted(single.told) == [1, 3, 4]
    assert request.sender == Peer(ME)
    assert request.entries[0] == Entry(Peer(ME), 0)
    assert len(request.entries) == 3
    ages = {entry.peer.id: entry.age for entry in request.entries[1:]}
    assert ages.items() <= {1: 6, 3: 3, 4: 1}.items()  # one period older than they came


@pytest.mark.parametrize("age", [2**64 - 1, -(2**63)])
def test_no_age_grows_until_it_cannot_be_sent(age):
    single = node()
    single.receive(9, ShuffleRequest(Peer(9), 7, entries((9, 0), (8, age), (7, age))))
    for _ in range(3):
        single.fire("shuffle")
        for _, message in single.sends:
            assert message.wire_size()


def test_everything_is_a_datagram():
    single = node(*FULL)
    request_of(single)
    assert {channel for _, _, channel in single.fx.sends} == {DATAGRAM}


def test_answer_has_entries_from_before_the_merge():
    single = node(*FULL)
    single.receive(9, ShuffleRequest(Peer(9), 7, entries((9, 0), (8, 3), (1, 1))))
    assert 9 in single.known()
    ((to, answer),) = single.sends
    assert (to, answer.number) == (9, 7)
    given = {entry.peer.id for entry in answer.entries}
    assert len(given) == 3
    assert given <= {1, 2, 3, 4}
    # 9 and 8 took the places of two of those given; 1 was known already
    assert {8, 9} <= set(single.told)
    assert len(single.told) == 4
    assert {1, 2, 3, 4} - given <= set(single.told)


def test_own_and_known_entries_are_discarded():
    single = node((1, 5), (2, 9))
    single.receive(9, ShuffleRequest(Peer(9), 1, entries((ME, 0), (1, 0), (9, 0))))
    assert sorted(single.told) == [1, 2, 9]
    assert single.protocol.statistics()["mean_age"] == pytest.approx((5 + 9 + 0) / 3)


def test_empty_places_are_filled_before_anything_is_replaced():
    single = node((1, 5), (2, 9), (3, 2))
    partner, _ = request_of(single)
    single.receive(partner, ShuffleAnswer(1, entries((7, 0), (8, 0))))
    assert sorted(single.told) == [1, 3, 7, 8]


def test_then_what_was_given_away_is_replaced():
    single = node(*FULL)
    partner, request = request_of(single)
    given = {entry.peer.id for entry in request.entries[1:]}
    single.receive(partner, ShuffleAnswer(1, entries((7, 0), (8, 0), (9, 0))))
    assert set(single.told) == ({1, 3, 4} - given) | {7, 8, 9}


def test_partner_that_answered_comes_back_into_a_place_left_empty():
    single = node(*FULL)
    partner, _ = request_of(single)
    single.receive(partner, ShuffleAnswer(1, entries((1, 4), (ME, 3))))
    assert sorted(single.told) == [1, 2, 3, 4]
    single = node(*FULL)
    partner, _ = request_of(single)
    single.receive(partner, ShuffleAnswer(1, entries((7, 4))))
    assert sorted(single.told) == [1, 3, 4, 7]


def test_entries_are_not_replaced_beyond_those_given():
    single = node(*FULL, shuffle_length=1)
    single.receive(9, ShuffleRequest(Peer(9), 1, entries((9, 0))))
    assert 9 in single.told
    single.receive(6, JoinSwap(Entry(Peer(8), 0)))  # nothing was given for it, and no place is free
    assert 8 not in single.told


def test_nobody_is_younger_than_new():
    """Or an entry could keep out of the way of being checked for ever."""
    single = node((1, -1000), (2, 1))
    assert single.protocol.statistics()["mean_age"] == 0.5
    assert request_of(single)[0] == 2


def test_unanswered_shuffle_loses_the_partner_only():
    single = node(*FULL)
    request_of(single)
    partner, _ = request_of(single)
    assert partner == 1
    assert sorted(single.told) == [3, 4]


def test_late_repeated_or_foreign_answer_is_dropped():
    single = node(*FULL)
    partner, _ = request_of(single)
    answer = ShuffleAnswer(1, entries((7, 0)))
    single.receive(55, answer)
    assert single.drops() == ["answer to no shuffle under way"]
    single.receive(partner, ShuffleAnswer(0, entries((7, 0))))
    assert single.drops() == ["answer to no shuffle under way"]
    single.receive(partner, answer)
    assert single.drops() == []
    single.receive(partner, answer)
    assert single.drops() == ["answer to no shuffle under way"]


def test_shuffle_is_bounded_by_our_own_length():
    single = node()
    single.receive(9, ShuffleRequest(Peer(9), 1, entries(*((peer, 0) for peer in range(9, 50)))))
    assert single.drops() == ["more entries than a shuffle has"]
    assert single.told == [9, 10, 11]


def test_message_in_another_name_is_dropped():
    single = node((1, 0))
    single.receive(9, ShuffleRequest(Peer(8), 1, entries((8, 0))))
    assert single.drops() == ["message in another's name"]
    single.receive(9, JoinRequest(Peer(8)))
    assert single.drops() == ["message in another's name"]
    assert single.told == [1]


def test_period_is_jittered_within_its_share():
    single = node(*FULL, shuffle_jitter=0.2)
    period = single.protocol.config.shuffle_period_ns
    waits = set()
    for _ in range(50):
        single.fire("shuffle")
        waits.add(single.protocol.timers.deadline("shuffle") - single.now)
    assert len(waits) > 40
    assert min(waits) >= 0.8 * period
    assert max(waits) <= 1.2 * period


def test_joins_through_a_contact():
    single = node(contacts=(7,))
    assert single.known() == [7]
    assert single.sends == [(7, JoinRequest(Peer(ME)))]


def test_join_is_repeated_while_the_view_is_empty():
    single = node(contacts=(7,))
    single.fire("shuffle")
    assert single.sends == [(7, JoinRequest(Peer(ME)))]
    single.receive(9, JoinSwap(Entry(Peer(8), 0)))
    single.fire("shuffle")
    assert single.sent(JoinRequest) == []


def test_empty_view_uses_the_contacts_again():
    single = node((1, 0), contacts=(7,))
    request_of(single)
    assert single.told == []
    single.fire("shuffle")
    assert single.sends == [(7, JoinRequest(Peer(ME)))]


def test_node_without_contacts_turns_to_its_last_partner():
    single = node((1, 0))
    request_of(single)
    single.fire("shuffle")
    assert single.sends == [(1, JoinRequest(Peer(ME)))]


def test_contact_sends_a_walk_to_each_neighbour():
    single = node(*FULL)
    single.receive(9, JoinRequest(Peer(9)))
    ((walkers, walk),) = single.sends
    assert sorted(walkers) == [1, 2, 3, 4]
    assert walk == JoinWalk(Peer(9), ttl=5)
    assert 9 not in single.told


def test_contact_with_a_free_place_takes_the_joiner_in_itself():
    single = node((1, 0))
    single.receive(9, JoinRequest(Peer(9)))
    assert (9, JoinSwap(Entry(Peer(ME), 0))) in single.sends
    assert single.told == [1, 9]


def test_walk_goes_on():
    single = node((1, 0), (9, 0))
    for _ in range(10):
        single.receive(50, JoinWalk(Peer(9), ttl=2))
        assert single.sends == [(1, JoinWalk(Peer(9), ttl=1))]


def test_walk_cannot_be_made_longer_than_configured():
    single = node((1, 0))
    single.receive(50, JoinWalk(Peer(9), ttl=10**9))
    assert single.sends == [(1, JoinWalk(Peer(9), ttl=4))]


def test_joiner_takes_the_place_of_the_entry_it_is_given():
    single = node(*FULL)
    single.receive(50, JoinWalk(Peer(9), ttl=0))
    ((to, swap),) = single.sends
    assert to == 9
    assert swap.entry in entries(*FULL)
    assert set(single.told) == ({1, 2, 3, 4} - {swap.entry.peer.id}) | {9}


def test_walk_that_finds_the_joiner_or_its_neighbour_ends_in_vain():
    single = node(*FULL)
    single.receive(50, JoinWalk(Peer(1), ttl=0))
    assert not single.sends
    single.receive(50, JoinWalk(Peer(ME), ttl=0))
    assert not single.sends
    assert sorted(single.told) == [1, 2, 3, 4]


def test_every_address_learnt_is_made_known():
    single = node((1, 5), (2, 9))
    single.receive(9, ShuffleRequest(Peer(9), 1, entries((9, 0), (8, 0))))
    assert {8, 9} <= set(single.known())


def test_sample_is_uniform_over_the_view():
    single = node(*FULL)
    counts = dict.fromkeys((1, 2, 3, 4), 0)
    for _ in range(2000):
        first, second = single.protocol.sample(2)
        assert first != second
        counts[first] += 1
        counts[second] += 1
    assert all(900 < count < 1100 for count in counts.values())


def test_leaving_stops_the_clock():
    single = node(*FULL)
    single.call("on_stop")
    assert not single.sends
    assert single.protocol.next_deadline() is None


def test_invariants_can_fail():
    single = node(*FULL)
    single.protocol._view.add(Entry(Peer(5), 0))
    with pytest.raises(InvariantViolation, match="view of 5, at most 4"):
        single.protocol.check_invariants()
    single = node((1, 0))
    single.protocol._view.add(Entry(Peer(ME), 0))
    with pytest.raises(InvariantViolation, match="its own neighbour"):
        single.protocol.check_invariants()


@pytest.mark.parametrize(
    "bad",
    [
        {"view_size": 0},
        {"shuffle_length": 0},
        {"shuffle_length": 21},
        {"shuffle_period_ns": 0},
        {"shuffle_jitter": 1.0},
        {"join_walk_length": -1},
        {"max_contacts": 0},
    ],
)
def test_config_out_of_bounds_names_the_field(bad):
    ((field, value),) = bad.items()
    with pytest.raises(ConfigError, match=f"^{field}: {value} "):
        CyclonConfig(**bad)
