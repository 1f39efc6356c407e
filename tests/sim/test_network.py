"""Connections in the simulated network: how they begin and end, what they carry, who is told."""

import pytest

from epicast.core import CONTROL, DATA, DATAGRAM, Peer
from epicast.sim.latency import ConstantLatency, MatrixLatency, UniformLatency, parse_matrix
from epicast.sim.network import Conditions
from tests.sim.probe import MS, SECOND, Lab, Note


def cut_between(one: int, other: int, *, one_way: bool = False):
    paths = {(one, other)} if one_way else {(one, other), (other, one)}
    return lambda source, target: (source, target) in paths


# -- order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_messages_on_a_connection_keep_their_order(seed, loss):
    lab = Lab(2, seed, latency=UniformLatency(MS, 100 * MS, seed), conditions=Conditions(loss=loss))
    for number in range(200):
        for source, target in ((1, 2), (2, 1)):
            channel = (CONTROL, DATA)[number % 2]
            lab.at(number * MS, lab.send, source, target, str(number), channel)
    lab.run(60 * SECOND)
    expected = [str(number) for number in range(200)]
    assert lab[1].texts() == lab[2].texts() == expected


def test_loss_delays_what_is_sent_on_a_connection_by_retransmissions():
    conditions = Conditions(loss=0.5, retransmit_ns=200 * MS)
    lab = Lab(2, latency=ConstantLatency(10 * MS), conditions=conditions)
    lab.link(1, 2)
    started = lab.sim.now
    delays = []
    for number in range(400):
        sent = started + number * 2 * SECOND
        lab.at(sent, lab.send, 1, 2, str(number))
    lab.run(801 * SECOND)
    for number in range(400):
        (arrived,) = lab[2].times(str(number))
        delays.append(arrived - started - number * 2 * SECOND)
    rounds = [(delay - 10 * MS) / (200 * MS) for delay in delays]
    assert all(each == int(each) for each in rounds)
    assert sum(rounds) / len(rounds) == pytest.approx(1, rel=0.15)  # p / (1 - p) losses each


# -- beginning ------------------------------------------------------------------------------------


def test_a_connection_is_up_after_a_round_trip():
    lab = Lab(2, latency=MatrixLatency(parse_matrix("0 20\n30 0", "")))
    lab.connect(1, 2)
    lab.run(SECOND)
    assert [entry for entry in lab[1].log if entry[1] == "up"] == [(50 * MS, "up", 2)]
    assert lab[2].events() == []  # it did not ask for one


def test_who_sends_without_connecting_is_told_nothing():
    lab = Lab(2)
    lab.send(1, 2, "hello")
    lab.run(SECOND)
    assert lab[1].events() == []
    assert lab[2].events() == [("hello", 1)]
    assert lab[2].times("hello") == [3 * MS]  # a round trip, then the message


def test_simultaneous_connects_become_one_connection():
    lab = Lab(2, latency=UniformLatency(MS, 50 * MS, seed=3))
    for source, target in ((1, 2), (2, 1)):
        lab.connect(source, target)
        lab.send(source, target, "crossing")
    lab.run(SECOND)
    for node, peer in ((1, 2), (2, 1)):
        assert lab[node].events() == [("up", peer), ("crossing", peer)]
    assert lab.node(1).links[2] is lab.node(2).links[1]


def test_connecting_to_a_peer_that_is_connected_already_is_answered_too():
    lab = Lab(2)
    lab.connect(1, 2)
    lab.run(SECOND)
    lab.connect(2, 1)
    lab.run(SECOND)
    assert lab[2].events() == [("up", 1)]
    assert lab[1].events() == [("up", 2)]


@pytest.mark.parametrize("after", [0, 500 * MS])
def test_one_answer_however_often_interest_is_stated_in_a_step(after):
    lab = Lab(2)
    if after:
        lab.connect(2, 1)  # so that the connection stands already
        lab.run(after)

    def waver(fx):
        for _ in range(3):
            fx.connect(Peer(2))
            fx.disconnect(2)
        fx.connect(Peer(2))

    lab.act(1, waver)
    lab.run(SECOND)
    assert lab[1].events() == [("up", 2)]


@pytest.mark.parametrize("target", ["dead", "stranger", "itself"])
def test_a_peer_that_is_not_there_refuses(target):
    lab = Lab(2, latency=ConstantLatency(10 * MS))
    if target == "dead":
        lab.sim.crash(lab.node(2))
    peer = {"dead": 2, "stranger": 99, "itself": 1}[target]
    lab.connect(1, peer)
    lab.send(1, peer, "hello?")
    lab.run(10 * SECOND)
    assert [entry for entry in lab[1].log if entry[1] != "start"] == [(20 * MS, "down", peer)]
    assert lab.sim.drops == {"connection lost": 1}


@pytest.mark.parametrize("target", [2, 99])
def test_an_attempt_given_up_is_not_answered(target):
    lab = Lab(2)
    lab.sim.crash(lab.node(2))
    lab.connect(1, target)
    lab.disconnect(1, target)
    lab.run(10 * SECOND)
    assert lab[1].events() == []


def test_a_machine_that_vanished_does_not_even_refuse():
    lab = Lab(2)
    lab.sim.crash(lab.node(2), silently=True)
    lab.connect(1, 2)
    lab.run(10 * SECOND)
    assert [entry for entry in lab[1].log if entry[1] != "start"] == [(3 * SECOND, "down", 2)]


@pytest.mark.parametrize("one_way", [(1, 2), (2, 1), None])
def test_connecting_over_a_cut_path_times_out(one_way):
    lab = Lab(2)
    ways = one_way or (1, 2)
    lab.sim.network.cut(cut_between(*ways, one_way=one_way is not None))
    lab.connect(1, 2)
    lab.send(1, 2, "lost")
    lab.run(10 * SECOND)
    assert [entry for entry in lab[1].log if entry[1] != "start"] == [(3 * SECOND, "down", 2)]
    assert lab[2].events() == []


def test_an_attempt_is_not_heard_of_across_a_cut():
    lab = Lab(2)
    lab.link(1, 2)
    lab.sim.network.cut(cut_between(1, 2))
    lab.sim.crash(lab.node(1))
    lab.sim.start(lab.node(1))
    lab.connect(1, 2)
    lab.run(4 * SECOND)
    assert lab[2].events() == []
    assert lab[1].events() == [("down", 2)]
    lab.run(4 * SECOND)  # 5 s after the crash the other end gives up
    assert lab[2].events() == [("down", 1)]


# -- the end --------------------------------------------------------------------------------------


def test_disconnecting_is_silent_and_the_connection_carries_on():
    lab = Lab(2)
    lab.link(1, 2)
    lab.disconnect(1, 2)
    lab.send(2, 1, "still here")
    lab.run(SECOND)
    lab.sim.crash(lab.node(2))
    lab.run(10 * SECOND)
    assert lab[1].events() == [("still here", 2)]


def test_a_crash_is_noticed_after_what_was_sent_before_it():
    lab = Lab(2, latency=UniformLatency(MS, 80 * MS, seed=1))
    lab.link(1, 2)
    for number in range(20):
        lab.send(1, 2, str(number))
    lab.sim.crash(lab.node(1))
    lab.run(SECOND)
    assert lab[2].texts() == [*map(str, range(20)), "down"]


def test_a_silent_crash_is_noticed_only_after_a_while():
    lab = Lab(2)
    lab.link(1, 2)
    crashed = lab.sim.now
    lab.sim.crash(lab.node(1), silently=True)
    lab.send(2, 1, "into the void")
    lab.run(10 * SECOND)
    assert lab[2].log == [(crashed + 5 * SECOND, "down", 1)]
    assert lab.sim.drops == {"node down": 1}


def test_goodbyes_arrive_before_the_end():
    lab = Lab(2, latency=UniformLatency(MS, 80 * MS, seed=1))
    lab.link(1, 2)
    lab[1].reactions["stop"] = lambda fx: fx.send(2, Note("goodbye"))
    lab.sim.stop(lab.node(1))
    lab.run(SECOND)
    assert lab[2].events() == [("goodbye", 1), ("down", 1)]


@pytest.mark.parametrize("silently", [False, True])
@pytest.mark.parametrize("away", [0, 5 * MS, 2 * SECOND])
def test_a_new_incarnation_gets_nothing_of_what_the_old_one_was_sent(silently, away):
    lab = Lab(2, latency=ConstantLatency(20 * MS))
    lab.link(1, 2)
    lab.send(2, 1, "in flight at the crash")
    lab.run(MS)
    lab.sim.crash(lab.node(1), silently=silently)
    lab.send(2, 1, "not known to be gone yet")
    lab.run(away)
    lab.sim.start(lab.node(1))
    lab.send(2, 1, "to the old one still")
    lab.run(20 * SECOND)
    # The last one finds nobody if the end of the connection was known by then.
    assert "in flight at the crash" not in lab[1].texts()
    assert "not known to be gone yet" not in lab[1].texts()
    known_gone = away == 2 * SECOND and not silently
    assert ("to the old one still" in lab[1].texts()) == known_gone
    assert lab[2].events("down") == [("down", 1)]


def test_the_down_of_the_old_incarnation_precedes_the_up_of_the_new():
    lab = Lab(2, latency=ConstantLatency(20 * MS))
    lab.link(1, 2)
    lab[2].reactions["down"] = lambda fx: fx.connect(Peer(1))
    lab.send(1, 2, "old")
    lab.sim.crash(lab.node(1), silently=True)
    lab.sim.start(lab.node(1))
    lab.connect(1, 2)
    lab.send(1, 2, "new")
    lab.run(10 * SECOND)
    assert lab[2].events() == [("down", 1), ("up", 1), ("new", 1)]
    assert lab[1].events() == [("up", 2)]


def test_a_restarted_machine_resets_connections_of_its_earlier_life():
    lab = Lab(2, latency=ConstantLatency(20 * MS))
    lab.link(1, 2)
    lab.sim.crash(lab.node(1), silently=True)
    lab.sim.start(lab.node(1))
    back = lab.sim.now
    lab.send(2, 1, "who are you?")
    lab.run(SECOND)
    assert lab[2].log == [(back + 40 * MS, "down", 1)]


def test_an_opener_that_dies_and_returns_during_the_handshake_has_no_connection():
    lab = Lab(2, latency=ConstantLatency(100 * MS))
    lab.connect(1, 2)
    lab.connect(2, 1)
    lab.run(50 * MS)
    lab.sim.crash(lab.node(1))
    lab.sim.start(lab.node(1))
    lab.run(5 * SECOND)
    assert lab[2].events() == [("down", 1)]
    assert lab.node(1).links == lab.node(2).links == {}


def test_both_ends_may_die():
    lab = Lab(2)
    lab.link(1, 2)
    for number in (1, 2):
        lab.sim.crash(lab.node(number), silently=True)
    for number in (1, 2):
        lab.sim.start(lab.node(number))
        assert lab.node(number).ghosts == 0
    lab.link(1, 2)
    lab.send(1, 2, "again")
    lab.run(10 * SECOND)
    assert lab[2].events() == [("again", 1)]


# -- reports that are under way -------------------------------------------------------------------


def break_now(lab: Lab) -> None:
    lab.sim.network.connections.break_link(lab.node(1).links[2])


def test_a_disconnect_takes_back_a_down_that_was_not_told_yet():
    lab = Lab(2)
    lab.link(1, 2)
    break_now(lab)
    lab.disconnect(1, 2)
    lab.run(SECOND)
    assert lab[1].events() == []
    assert lab[2].events() == [("down", 1)]


def test_a_down_that_was_not_told_yet_answers_a_connect():
    lab = Lab(2)
    lab.link(1, 2)
    break_now(lab)
    lab.connect(1, 2)
    lab.run(SECOND)
    assert lab[1].events() == [("down", 2)]
    lab.connect(1, 2)
    lab.run(SECOND)
    assert lab[1].events() == [("down", 2), ("up", 2)]


@pytest.mark.parametrize("report", ["up", "down"])
def test_a_report_that_came_during_a_pause_can_still_be_taken_back(report):
    lab = Lab(2)
    if report == "down":
        lab.link(1, 2)
    else:
        lab.connect(1, 2)
    lab.sim.pause(lab.node(1))
    lab.send(2, 1, "let go of me", DATAGRAM)  # arrives first
    lab.run(SECOND)
    if report == "down":
        break_now(lab)
    lab.run(SECOND)
    lab[1].reactions["let go of me"] = lambda fx: fx.disconnect(2)
    lab.sim.resume(lab.node(1))
    lab.run(SECOND)
    assert lab[1].events() == [("let go of me", 2)]


# -- cut paths ------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_way", [False, True])
def test_a_connection_bears_with_a_short_cut_and_keeps_the_order(one_way):
    lab = Lab(2, latency=UniformLatency(MS, 60 * MS, seed=2))
    lab.link(1, 2)
    cut = cut_between(1, 2, one_way=one_way)
    for number in range(50):
        lab.at(lab.sim.now + number * 10 * MS, lab.send, 1, 2, str(number))
    lab.at(lab.sim.now + 100 * MS, lab.sim.network.cut, cut)
    lab.at(lab.sim.now + 4 * SECOND, lab.sim.network.mend, cut)
    lab.run(3 * SECOND)
    assert len(lab[2].texts()) < 50
    lab.run(7 * SECOND)
    assert lab[2].texts() == [str(number) for number in range(50)]
    assert lab[1].events() == []


def test_a_connection_breaks_under_a_long_cut():
    lab = Lab(2)
    lab.link(1, 2)
    lab.sim.network.cut(cut_between(1, 2))
    begun = lab.sim.now
    lab.send(1, 2, "held back")
    lab.run(10 * SECOND)
    assert lab[1].log == [(begun + 5 * SECOND, "down", 2)]
    assert lab[2].log == [(begun + 5 * SECOND, "down", 1)]
    assert lab.sim.drops == {"connection lost": 1}


def test_patience_begins_anew_with_each_cut():
    lab = Lab(2)
    lab.link(1, 2)
    first, second = cut_between(1, 2), cut_between(1, 2)
    lab.sim.network.cut(first)
    lab.send(1, 2, "first")
    lab.run(4 * SECOND)
    lab.sim.network.mend(first)
    lab.run(SECOND // 2)
    lab.sim.network.cut(second)
    lab.send(1, 2, "second")
    lab.run(4 * SECOND)  # 8.5 s after the first was held back
    lab.sim.network.mend(second)
    lab.run(SECOND)
    assert lab[2].texts() == ["first", "second"]


def test_a_path_is_mended_when_nothing_cuts_it_any_more():
    lab = Lab(2)
    lab.link(1, 2)
    cuts = [cut_between(1, 2), cut_between(2, 1)]
    for cut in cuts:
        lab.sim.network.cut(cut)
    lab.send(1, 2, "patient")
    lab.run(SECOND)
    lab.sim.network.mend(cuts[0])
    lab.run(SECOND)
    assert lab[2].texts() == []
    lab.sim.network.mend(cuts[1])
    lab.run(SECOND)
    assert lab[2].texts() == ["patient"]


def test_a_connection_holds_back_so_much_and_no_more():
    lab = Lab(2, conditions=Conditions(max_held=3))
    lab.link(1, 2)
    lab.sim.network.cut(cut_between(1, 2))
    for number in range(4):
        lab.send(1, 2, str(number))
    lab.run(MS)
    assert lab[1].events() == [("down", 2)]
    assert lab.sim.drops == {"connection lost": 4}


# -- idleness and overload ------------------------------------------------------------------------


def test_a_connection_nobody_wants_is_closed_when_idle():
    lab = Lab(2)
    for number in range(4):
        lab.at(number * 8 * SECOND, lab.send, 1, 2, "hello")
    lab.run(30 * SECOND)
    assert 2 in lab.node(1).links
    lab.run(20 * SECOND)
    assert lab.node(1).links == lab.node(2).links == {}
    assert lab[2].texts() == ["hello"] * 4
    assert lab[1].events() == []


def test_a_connection_both_want_stays_and_one_that_one_wants_does_not():
    lab = Lab(3)
    lab.link(1, 2)
    lab.connect(1, 3)
    lab.run(60 * SECOND)
    assert list(lab.node(1).links) == [2]
    assert lab[1].events() == [("up", 3), ("down", 3)]
    assert lab[3].events() == []


def test_a_node_that_stands_still_has_room_for_so_much():
    lab = Lab(3, conditions=Conditions(max_waiting=5))
    lab.link(1, 2)
    lab.sim.pause(lab.node(2))
    for number in range(7):
        lab.send(3, 2, f"datagram {number}", DATAGRAM)
    lab.run(SECOND)
    lab.send(1, 2, "on a connection")
    lab.run(SECOND)
    lab.sim.resume(lab.node(2))
    lab.run(SECOND)
    assert lab[2].texts() == [f"datagram {number}" for number in range(5)] + ["down"]
    assert lab[1].events() == [("down", 2)]
    assert lab.sim.drops == {"overloaded": 3}
