"""Losing neighbours and winning new ones, handler by handler."""

import pytest

from epicast.core import NEVER, InvariantViolation, Peer
from epicast.protocols.hyparview.messages import (
    Disconnect,
    Join,
    KeepAlive,
    Neighbor,
    NeighborReply,
    Welcome,
)
from tests.protocols.harness import SECOND
from tests.protocols.hyparview.nodes import ME, node, node_with

RESERVE = tuple(range(50, 60))


def asked(single):
    """Connect to a candidate and let the connection stand."""
    (candidate,) = single.connects()
    single.up(candidate)
    return candidate


def test_request_of_low_priority_is_accepted_below_the_target_only():
    single = node_with(active=4)
    single.receive(9, Neighbor(Peer(9), high_priority=False))
    assert single.sends == [(9, NeighborReply(True))]
    assert 9 in single.told
    single.receive(10, Neighbor(Peer(10), high_priority=False))
    assert single.sends == [(10, NeighborReply(False))]
    assert 10 not in single.told
    assert not single.connects()


def test_request_of_high_priority_is_always_accepted():
    single = node_with(active=10)
    single.receive(99, Neighbor(Peer(99), high_priority=True))
    assert (99, NeighborReply(True)) in single.sends
    assert len(single.sent(Disconnect)) == 1
    assert 99 in single.told
    assert len(single.told) == 10


def test_request_of_a_neighbour_is_accepted_without_a_second_link():
    single = node_with(active=7)
    single.receive(3, Neighbor(Peer(3), high_priority=False))
    assert single.sends == [(3, NeighborReply(True))]
    assert not single.connects()
    assert single.told.count(3) == 1


def test_request_in_another_name_is_dropped():
    single = node_with(active=1)
    single.receive(9, Neighbor(Peer(10), high_priority=True))
    assert single.drops() == ["message in another's name"]


def test_failed_neighbour_is_replaced_from_the_passive_view():
    single = node_with(active=5, passive=RESERVE)
    single.down(3)
    assert 3 not in single.told
    assert 3 not in single.protocol.passive
    candidate = asked(single)
    assert candidate in RESERVE
    assert single.sends == [(candidate, Neighbor(Peer(ME), high_priority=False))]
    assert candidate not in single.told
    single.receive(candidate, NeighborReply(True))
    assert candidate in single.told
    assert candidate not in single.protocol.passive
    assert not single.connects()  # neither this one again nor another: the target is reached


def test_candidate_that_cannot_be_reached_is_struck_off_and_the_next_is_tried():
    single = node_with(active=5, passive=RESERVE)
    single.down(3)
    first = single.connects()[0]
    single.down(first)
    assert first not in single.protocol.passive
    (second,) = single.connects()
    single.up(second)
    single.fire("attempt")  # connected, but silent
    assert single.disconnects() == [second]
    assert second not in single.protocol.passive
    assert single.connects()[0] in set(RESERVE) - {first, second}


def test_candidate_that_refuses_stays_and_the_next_is_tried():
    single = node_with(active=5, passive=RESERVE)
    single.down(3)
    first = asked(single)
    single.receive(first, NeighborReply(False))
    assert single.disconnects() == [first]
    assert first in single.protocol.passive
    assert single.connects()[0] != first


def test_refusals_are_bounded_until_the_repair_timer():
    single = node_with(active=5, passive=RESERVE, promotion_attempts=3)
    single.down(3)
    for _ in range(3):
        single.receive(asked(single), NeighborReply(False))
    assert not single.connects()
    single.fire("repair")
    assert single.connects()


@pytest.mark.parametrize(("neighbors", "urgent"), [(0, True), (1, True), (2, False), (4, False)])
def test_node_with_next_to_no_neighbours_asks_with_high_priority(neighbors, urgent):
    single = node_with(active=neighbors + 1, passive=RESERVE)
    single.down(1)
    candidate = asked(single)
    assert single.sends == [(candidate, Neighbor(Peer(ME), high_priority=urgent))]


def test_without_expansion_only_a_node_with_no_neighbour_is_urgent():
    single = node_with(active=2, passive=RESERVE, expansion_factor=1)
    single.down(1)
    candidate = asked(single)
    assert single.sends == [(candidate, Neighbor(Peer(ME), high_priority=False))]


def test_eviction_is_replaced_below_the_target():
    single = node_with(active=5, passive=RESERVE)
    single.receive(2, Disconnect(leaving=False))
    assert 2 not in single.told
    assert 2 in single.protocol.passive
    assert single.disconnects() == [2]
    assert len(single.connects()) == 1


def test_eviction_is_not_replaced_at_or_above_the_target():
    single = node_with(active=7, passive=RESERVE)
    for leaver in (1, 2):
        single.receive(leaver, Disconnect(leaving=False))
        assert not single.connects()
    assert len(single.told) == 5


def test_leaver_is_forgotten_altogether():
    single = node_with(active=6)
    single.receive(2, Disconnect(leaving=True))
    assert 2 not in single.told
    assert 2 not in single.protocol.passive


def test_disconnect_of_a_stranger_is_not_answered():
    single = node_with(active=2)
    single.receive(77, Disconnect(leaving=False))
    assert not single.sends
    assert not single.fx.operations


def test_disconnect_of_a_peer_being_asked_does_not_end_the_attempt():
    single = node_with(active=5, passive=(50,))
    single.down(3)
    candidate = asked(single)
    single.receive(candidate, Disconnect(leaving=False))
    assert not single.disconnects()
    single.receive(candidate, NeighborReply(True))
    assert candidate in single.told


def test_acceptance_that_comes_too_late_is_declined():
    single = node_with(active=5, passive=(50,))
    single.down(3)
    candidate = asked(single)
    single.fire("attempt")
    single.receive(candidate, NeighborReply(True))
    assert single.sends == [(candidate, Disconnect(leaving=False))]


def test_two_nodes_that_ask_each_other_end_up_with_one_link():
    single = node_with(active=4, passive=(50,))
    single.fire("repair")
    candidate = single.connects()[0]
    single.receive(candidate, Neighbor(Peer(candidate), high_priority=False))
    assert not single.connects()  # the connection being made is the link's
    single.up(candidate)
    assert not single.sends  # no need to ask any more
    assert single.told.count(candidate) == 1


def test_refusal_of_a_peer_that_became_a_neighbour_meanwhile_keeps_the_link():
    single = node_with(active=3, passive=(50,))
    single.fire("repair")
    asked(single)
    single.receive(50, Neighbor(Peer(50), high_priority=True))
    single.receive(50, NeighborReply(False))
    assert 50 in single.told
    assert 50 in single.interest


def test_node_that_lost_everything_joins_again_with_growing_waits():
    single = node(rejoin_backoff_ns=SECOND, rejoin_backoff_max_ns=4 * SECOND)
    single.start(7)
    waits = []
    for _ in range(6):
        single.down(7)
        assert not single.connects()
        waits.append(single.protocol.timers.deadline("repair") - single.now)
        single.fire("repair")
        assert single.connects() == [7]
    full = [SECOND, 2 * SECOND, 4 * SECOND, 4 * SECOND, 4 * SECOND, 4 * SECOND]
    assert all(top / 2 <= wait <= top for wait, top in zip(waits, full, strict=True))
    single.up(7)
    assert single.sends == [(7, Join(Peer(ME)))]
    single.receive(7, Welcome(Peer(7), ()))
    single.down(7)
    single.down(7)  # the neighbour, then the contact that it is, too
    assert single.protocol.timers.deadline("repair") <= single.now + SECOND


def test_node_with_neighbours_but_no_reserve_turns_to_its_contacts():
    single = node()
    single.start(7, 8)
    first = asked(single)
    single.receive(first, Welcome(Peer(first), ()))
    single.fire("repair")
    assert single.connects() == [15 - first]
    single.up(15 - first)
    assert single.sends == [(15 - first, Join(Peer(ME)))]


def test_passive_view_comes_before_the_contacts():
    single = node()
    single.start(7)
    single.up(7)
    single.receive(7, Welcome(Peer(7), (Peer(50),)))
    single.down(7)
    assert single.connects() == [50]


def test_failed_neighbour_is_tried_again_later_with_high_priority():
    single = node_with(active=8)
    single.down(3)
    assert not single.connects()
    single.fire("reconnect")
    assert single.connects() == [3]
    single.up(3)
    assert single.sends == [(3, Neighbor(Peer(ME), high_priority=True))]
    single.receive(3, NeighborReply(True))
    assert 3 in single.told
    single.fire("reconnect")
    assert single.protocol.timers.deadline("reconnect") == NEVER


def test_failed_neighbour_is_tried_again_even_with_a_full_view():
    """Halves of a partition that are as large as a view is would never find each other again."""
    single = node_with(active=10)
    single.down(3)
    single.receive(11, Neighbor(Peer(11), high_priority=True))
    assert len(single.told) == 10
    single.fire("reconnect")
    assert asked(single) == 3
    single.receive(3, NeighborReply(True))
    assert 3 in single.told
    assert len(single.told) == 10
    assert len(single.sent(Disconnect)) == 1


def test_failed_neighbour_is_not_tried_for_ever():
    single = node_with(active=8, reconnect_attempts=2, keep_alive_period_ns=0)
    single.down(3)
    for _ in range(2):
        single.fire("reconnect")
        single.down(3)
    assert single.protocol.timers.deadline("reconnect") == NEVER


def test_memory_of_failed_neighbours_is_bounded_and_keeps_the_last():
    single = node_with(active=9, lost_memory=2, keep_alive_period_ns=0)
    for peer in (3, 4, 5, 6):
        single.down(peer)
    tried = []
    for _ in range(4):
        single.fire("reconnect")
        tried += single.connects()
        single.down(tried[-1])
    assert 6 in tried
    assert len(set(tried)) == 2
    assert tried[:2] == tried[2:]  # in turn


def test_one_failed_neighbour_that_answers_ends_the_search():
    single = node_with(active=9, keep_alive_period_ns=0)
    for peer in (3, 4, 5):
        single.down(peer)
    single.fire("reconnect")
    (back,) = single.connects()
    single.up(back)
    single.receive(back, NeighborReply(True))
    single.fire("reconnect")
    assert not single.connects()
    assert single.protocol.timers.deadline("reconnect") == NEVER


def test_memory_of_failed_neighbours_can_be_switched_off():
    single = node_with(active=8, lost_memory=0)
    single.down(3)
    assert single.protocol.timers.deadline("reconnect") == NEVER


def test_neighbour_that_left_is_not_tried_again():
    single = node_with(active=8)
    single.down(3)
    single.receive(3, Disconnect(leaving=True))
    single.fire("reconnect")
    assert not single.connects()


def test_leaving_says_goodbye_and_stops_the_clocks():
    single = node_with(active=2, passive=(50,))
    single.fire("repair")
    single.call("on_stop")
    assert single.sends == [([1, 2], Disconnect(leaving=True))]
    assert sorted(single.disconnects()) == [1, 2, 50]
    assert single.protocol.next_deadline() is None
    single.receive(1, KeepAlive(0))
    assert single.sends == [(1, Disconnect(leaving=False))]


def test_invariants_can_fail():
    def broken(change):
        single = node_with(active=3, passive=(50,))
        change(single.protocol)
        with pytest.raises(InvariantViolation, match="node 100"):
            single.protocol.check_invariants()

    broken(lambda p: p.active.update({ME: p.active[1]}))
    broken(lambda p: p.active.update({50: p.active[1]}))
    broken(lambda p: p.active.update(dict.fromkeys(range(200, 210), p.active[1])))
    broken(lambda p: p.timers.cancel("repair"))
    broken(lambda p: p.timers.set("attempt", 1))
