"""Shuffling and keep-alive, handler by handler."""

from epicast.core import NEVER, Peer
from epicast.core.effects import Connect
from epicast.protocols.hyparview.messages import (
    Disconnect,
    KeepAlive,
    KeepAliveReply,
    NeighborReply,
    Shuffle,
    ShuffleReply,
)
from tests.protocols.harness import MS, SECOND
from tests.protocols.hyparview.nodes import ME, node, node_with, peers

RESERVE = tuple(range(50, 80))


def shuffle_of(single):
    single.fire("shuffle")
    ((target, message),) = single.sent(Shuffle)
    return target, message


def test_shuffle_carries_the_node_itself_and_a_part_of_both_views():
    single = node_with(active=5, passive=RESERVE)
    target, message = shuffle_of(single)
    assert target in single.told
    assert (message.origin, message.ttl) == (Peer(ME), 6)
    ids = [peer.id for peer in message.peers]
    assert ids[0] == ME
    assert len(set(ids)) == len(ids) == 1 + 3 + 4
    assert len(set(ids) & set(single.told)) == 3
    assert len(set(ids) & set(RESERVE)) == 4
    assert target not in ids


def test_shuffles_are_periodic():
    single = node_with(active=5)
    shuffle_of(single)
    deadline = single.protocol.timers.deadline("shuffle")
    assert deadline == single.now + single.protocol.config.shuffle_period_ns


def test_lonely_node_does_not_shuffle():
    single = node()
    single.start()
    single.fire("shuffle")
    assert not single.sends
    assert single.protocol.timers.deadline("shuffle") != NEVER


def test_shuffle_walks_on_to_a_neighbour_it_did_not_come_from():
    single = node_with(active=3)
    for _ in range(20):
        single.receive(1, Shuffle(Peer(2), 6, peers(2, 60)))
        assert single.sends == [(3, Shuffle(Peer(2), 5, peers(2, 60)))]
    assert 60 not in single.protocol.passive


def test_shuffle_ends_with_a_reply_to_its_origin():
    single = node_with(active=3, passive=RESERVE[:10])
    single.receive(1, Shuffle(Peer(90), 1, peers(90, 91, 2, ME)))
    assert single.known() == [90]
    ((to, reply),) = single.sends
    assert to == 90
    assert len(reply.peers) == 4  # as many as were received
    assert {peer.id for peer in reply.peers} <= set(RESERVE[:10])
    assert 90 in single.protocol.passive
    assert 91 in single.protocol.passive
    assert 2 not in single.protocol.passive  # a neighbour already


def test_own_shuffle_that_returns_is_ignored():
    single = node_with(active=3)
    single.receive(1, Shuffle(Peer(ME), 1, peers(ME, 91)))
    assert not single.sends
    assert 91 not in single.protocol.passive


def test_what_was_given_away_is_forgotten_first():
    single = node_with(active=5, passive=RESERVE)  # full
    _, message = shuffle_of(single)
    given = {peer.id for peer in message.peers} & set(RESERVE)
    single.receive(70, ShuffleReply(peers(90, 91, 92, 93)))
    kept = set(single.protocol.passive)
    assert kept == (set(RESERVE) - given) | {90, 91, 92, 93}


def test_answerer_forgets_what_it_gave_first():
    single = node_with(active=2, passive=RESERVE)
    single.receive(1, Shuffle(Peer(90), 0, peers(90, 91)))
    ((_, reply),) = single.sends
    given = {peer.id for peer in reply.peers}
    assert set(single.protocol.passive) == (set(RESERVE) - given) | {90, 91}


def test_reply_that_nobody_asked_for_is_dropped():
    single = node_with(active=2)
    single.receive(70, ShuffleReply(peers(90)))
    assert single.drops() == ["shuffle reply without shuffle"]
    assert 90 not in single.protocol.passive


def test_second_reply_to_one_shuffle_is_dropped():
    single = node_with(active=5, passive=RESERVE)
    shuffle_of(single)
    single.receive(70, ShuffleReply(peers(90)))
    assert not single.drops()
    single.receive(70, ShuffleReply(peers(91)))
    assert single.drops() == ["shuffle reply without shuffle"]
    assert 91 not in single.protocol.passive


def test_newer_address_of_a_passive_peer_is_kept():
    single = node_with(active=4, passive=(50,), shuffle_period_ns=3600 * SECOND)
    moved = Peer(50, "elsewhere", 7400)
    single.receive(1, Shuffle(Peer(1), 0, (moved,)))
    single.fire("repair")
    assert [op.peer for op in single.fx.operations if isinstance(op, Connect)] == [moved]


def test_shuffle_from_a_stranger_is_answered_but_the_stranger_is_told():
    single = node_with(active=1)
    single.receive(30, Shuffle(Peer(90), 1, peers(90)))
    assert (30, Disconnect(leaving=False)) in single.sends
    assert single.sent(ShuffleReply)


def test_keep_alive_is_sent_to_all_neighbours():
    single = node_with(active=3, shuffle_period_ns=3600 * SECOND)
    single.fire("keep_alive")
    assert ([1, 2, 3], KeepAlive(single.now)) in single.sends


def test_keep_alive_can_be_switched_off():
    single = node_with(active=3, keep_alive_period_ns=0)
    assert single.protocol.timers.deadline("keep_alive") == NEVER


def test_keep_alive_is_echoed():
    single = node_with(active=3)
    single.receive(2, KeepAlive(12345))
    assert single.sends == [(2, KeepAliveReply(12345))]


def test_keep_alive_of_a_stranger_is_answered_by_disconnect():
    single = node_with(active=3)
    single.receive(30, KeepAlive(12345))
    assert single.sends == [(30, Disconnect(leaving=False))]


def test_keep_alive_of_a_peer_being_asked_waits_for_its_answer():
    """It may be older than the answer; a Disconnect would undo what the peer has just accepted."""
    single = node_with(active=4, passive=(50,), shuffle_period_ns=3600 * SECOND)
    single.fire("repair")
    single.up(50)
    single.receive(50, KeepAlive(12345))
    assert not single.sends
    single.receive(50, NeighborReply(False))
    single.receive(50, KeepAlive(12345))
    assert single.sends == [(50, Disconnect(leaving=False))]


def test_round_trip_time_is_measured_and_smoothed():
    single = node_with(active=3)
    assert single.protocol.round_trip_time(2) is None
    assert single.protocol.round_trip_time(77) is None
    single.now = 500 * MS
    single.receive(2, KeepAliveReply(420 * MS))
    assert single.protocol.round_trip_time(2) == 80 * MS
    single.now = 1500 * MS
    single.receive(2, KeepAliveReply(1340 * MS))
    assert single.protocol.round_trip_time(2) == 90 * MS


def test_reply_with_an_impossible_time_is_dropped():
    single = node_with(active=3)
    for impossible in (-1, 10**18):
        single.receive(2, KeepAliveReply(impossible))
        assert single.drops() == ["keep-alive reply to nothing"]
    assert single.protocol.round_trip_time(2) is None


def test_silent_neighbour_counts_as_failed_after_some_periods():
    single = node_with(active=3, keep_alive_silent_periods=3)
    for _ in range(3):
        single.fire("keep_alive")
        single.receive(1, KeepAlive(0))
        single.receive(2, KeepAliveReply(single.now))
        assert 3 in single.told
    single.fire("keep_alive")
    assert sorted(single.told) == [1, 2]
    assert 3 in single.disconnects()
    assert 3 not in single.protocol.passive


def test_node_that_was_paused_itself_suspects_nobody():
    single = node_with(active=3, keep_alive_silent_periods=3)
    single.wait(1000 * SECOND)
    assert single.told == [1, 2, 3]
