"""Joining, handler by handler."""

from epicast.core import NEVER, Peer
from epicast.protocols.hyparview.messages import (
    Disconnect,
    ForwardJoin,
    Join,
    Neighbor,
    Welcome,
)
from tests.protocols.harness import SECOND
from tests.protocols.hyparview.nodes import ME, node, node_with, peers


def test_first_node_waits_to_be_found():
    single = node()
    single.start()
    assert not single.fx.sends
    assert not single.connects()
    assert single.protocol.timers.deadline("shuffle") != NEVER


def test_joins_through_a_contact_once_connected():
    single = node()
    single.start(7)
    assert single.connects() == [7]
    assert not single.sends
    single.up(7)
    assert single.sends == [(7, Join(Peer(ME)))]


def test_is_not_its_own_contact():
    single = node()
    single.start(ME, 7)
    assert single.connects() == [7]


def test_remembers_a_bounded_number_of_contacts():
    single = node(max_contacts=3)
    single.start(*range(1, 50))
    tried = []
    for _ in range(3):
        tried += single.connects()
        single.down(tried[-1])
    assert len(set(tried)) == 3
    assert not single.connects()


def test_next_contact_is_tried_when_one_fails_or_is_silent():
    single = node()
    single.start(7, 8)
    first = single.connects()[0]
    single.down(first)
    (second,) = single.connects()
    assert {first, second} == {7, 8}
    single.up(second)
    single.fire("attempt")
    assert single.disconnects() == [second]
    single.fire("repair")
    assert single.connects()


def test_contact_takes_the_joiner_in_and_starts_walks():
    single = node_with(active=5, passive=(50,))
    single.receive(9, Join(Peer(9)))
    assert single.connects() == [9]
    assert 9 in single.told
    ((to, welcome),) = single.sent(Welcome)
    assert to == 9
    assert welcome.sender == Peer(ME)
    assert Peer(50) in welcome.peers
    assert Peer(9) not in welcome.peers
    ((walkers, walk),) = single.sent(ForwardJoin)
    assert walk == ForwardJoin(Peer(9), ttl=6)
    # 5 / 2 links rounded up, one of them the contact's own
    assert len(set(walkers)) == 2
    assert set(walkers) <= {1, 2, 3, 4, 5}


def test_without_expansion_walks_start_at_all_neighbours():
    single = node_with(active=4, active_view=5, expansion_factor=1)
    single.receive(9, Join(Peer(9)))
    ((walkers, _),) = single.sent(ForwardJoin)
    assert sorted(walkers) == [1, 2, 3, 4]


def test_join_in_another_name_is_dropped():
    single = node_with(active=1)
    single.receive(9, Join(Peer(10)))
    assert single.drops() == ["message in another's name"]
    assert not single.sends
    assert single.told == [1]


def test_full_view_evicts_one_at_random_for_a_joiner():
    single = node_with(active=10)
    single.receive(99, Join(Peer(99)))
    ((victim, message),) = single.sent(Disconnect)
    assert message == Disconnect(leaving=False)
    assert single.disconnects() == [victim]
    assert sorted(single.told) == sorted({*range(1, 11), 99} - {victim})
    assert victim in single.protocol.passive


def test_view_expands_before_anyone_is_evicted():
    single = node_with(active=5, active_view=5, expansion_factor=1.4)
    for joiner in (6, 7):
        single.receive(joiner, Join(Peer(joiner)))
        assert not single.sent(Disconnect)
    single.receive(8, Join(Peer(8)))
    assert len(single.sent(Disconnect)) == 1
    assert len(single.protocol.neighbors()) == 7


def test_join_of_a_neighbour_is_a_new_neighbour_on_the_same_connection():
    single = node_with(active=2)
    single.receive(1, Join(Peer(1)))
    assert not single.connects()
    assert not single.disconnects()
    assert [op.up for op in single.fx.operations if hasattr(op, "up")] == [False, True]
    assert single.sent(Welcome)


def test_walk_goes_on_to_a_neighbour_it_did_not_come_from():
    single = node_with(active=3)
    for _ in range(20):
        single.receive(1, ForwardJoin(Peer(2), ttl=5))
        assert single.sends == [(3, ForwardJoin(Peer(2), ttl=4))]


def test_walk_leaves_the_joiner_in_the_passive_view_on_its_way():
    single = node_with(active=2)
    single.receive(1, ForwardJoin(Peer(9), ttl=4))
    assert 9 not in single.protocol.passive
    single.receive(1, ForwardJoin(Peer(9), ttl=3))
    assert 9 in single.protocol.passive
    assert 9 not in single.told


def test_walk_ends_in_the_active_view():
    single = node_with(active=2)
    single.receive(1, ForwardJoin(Peer(9), ttl=0))
    assert single.connects() == [9]
    assert 9 in single.told
    ((to, welcome),) = single.sends
    assert (to, welcome.sender) == (9, Peer(ME))


def test_walk_ends_where_it_cannot_go_on():
    single = node_with(active=1)
    single.receive(1, ForwardJoin(Peer(9), ttl=6))
    assert 9 in single.told


def test_walk_that_finds_the_joiner_or_its_neighbour_ends_in_vain():
    single = node_with(active=2)
    single.receive(1, ForwardJoin(Peer(ME), ttl=0))
    assert not single.sends
    single.receive(1, ForwardJoin(Peer(2), ttl=0))
    assert not single.sends
    assert single.told == [1, 2]


def test_walk_cannot_be_made_longer_than_configured():
    single = node_with(active=2)
    single.receive(1, ForwardJoin(Peer(9), ttl=10**9))
    assert single.sends == [(2, ForwardJoin(Peer(9), ttl=5))]


def test_walk_from_a_stranger_goes_on_but_the_stranger_is_told():
    single = node_with(active=1)
    single.receive(30, ForwardJoin(Peer(9), ttl=4))
    assert (30, Disconnect(leaving=False)) in single.sends
    assert (1, ForwardJoin(Peer(9), ttl=3)) in single.sends


def test_welcome_ends_the_join_and_leaves_time_for_the_walks():
    single = node()
    single.start(7)
    single.up(7)
    single.receive(7, Welcome(Peer(7), peers(20, 21)))
    assert single.told == [7]
    assert not single.connects()  # the connection asked for is the one to keep
    assert 20 in single.protocol.passive
    repair = single.protocol.timers.deadline("repair")
    assert repair == single.now + single.protocol.config.repair_period_ns
    single.fire("repair")
    assert single.connects()[0] in (20, 21)


def test_repair_that_came_due_during_the_join_is_not_forgotten():
    single = node(attempt_timeout_ns=10 * SECOND, repair_period_ns=SECOND)
    single.start(7)
    single.up(7)
    single.receive(7, Neighbor(Peer(7), high_priority=True))  # a link, and a repair in a second
    single.fire("repair")
    assert single.protocol.timers.deadline("repair") == NEVER
    single.receive(7, Welcome(Peer(7), peers(20)))
    assert single.protocol.timers.deadline("repair") == single.now + SECOND


def test_welcome_beyond_the_largest_view_is_declined():
    single = node_with(active=10)
    single.receive(99, Welcome(Peer(99), ()))
    assert single.sends == [(99, Disconnect(leaving=False))]
    assert 99 not in single.told


def test_welcome_brings_a_bounded_number_of_peers():
    single = node_with(active=1)
    single.receive(2, Welcome(Peer(2), peers(*range(200, 300))))
    assert single.drops() == ["more peers than an exchange has"]
    assert len(single.protocol.passive) == 8
