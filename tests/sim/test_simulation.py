"""The driver of simulated nodes: lives, pauses, service time, publishing, timers."""

from random import Random

import pytest

from epicast.core import DATAGRAM, Effects, Host, HostConfig, Peer, Trace, TraceKind
from epicast.protocols.gossip import PushGossip, PushGossipConfig
from epicast.protocols.membership import FullMembership
from epicast.sim.latency import ConstantLatency
from epicast.sim.network import Conditions
from epicast.sim.service import Service
from epicast.sim.simulation import WALL_OFFSET_NS, Simulation
from tests.sim.probe import MS, SECOND, US, Lab, Note, Probe, batch

# -- lives ----------------------------------------------------------------------------------------


def test_each_life_has_its_own_incarnation_and_randomness():
    lab = Lab(1)
    drawn = [lab[1].rng.random()]
    for _ in range(3):
        lab.sim.crash(lab.node(1))
        lab.sim.start(lab.node(1), [Peer(7)])
        drawn.append(lab[1].rng.random())
    assert lab[1].events("start") == [("start", 4)]
    assert lab[1].contacts == [Peer(7)]
    assert len(set(drawn)) == 4
    assert drawn[0] == Lab(3)[1].rng.random()  # other nodes do not matter
    assert drawn[0] != Lab(1, seed=2)[1].rng.random()


def test_a_node_starts_only_when_it_is_down_and_ids_are_given_once():
    lab = Lab(2)
    with pytest.raises(ValueError, match="node 1 is up already"):
        lab.sim.start(lab.node(1))
    with pytest.raises(ValueError, match="there is a node 2 already"):
        lab.sim.add_node(Probe, node_id=2)


def test_a_dead_node_hears_nothing_and_its_timers_are_gone():
    lab = Lab(2)
    probe = lab[1]
    probe.timers.set("alarm", SECOND)
    lab.act(1, lambda fx: None)
    lab.sim.crash(lab.node(1))
    lab.send(2, 1, "hello", DATAGRAM)
    lab.sim.publish(lab.node(1), batch(1, 1))
    lab.run(2 * SECOND)
    assert probe.events() == []
    assert repr(lab.node(1)) == "<SimNode 1 down>"


def test_time_as_protocols_see_it():
    lab = Lab(1)
    lab.run(5 * SECOND)
    seen = []
    lab.act(1, lambda fx: seen.append(fx.wall_offset))
    assert seen == [WALL_OFFSET_NS]


# -- pauses ---------------------------------------------------------------------------------------


def test_what_comes_during_a_pause_is_handled_afterwards_in_order():
    lab = Lab(3)
    lab.connect(1, 2)
    lab.connect(1, 3)
    lab[1].timers.set("alarm", 500 * MS)
    lab.act(1, lambda fx: None)
    lab.sim.pause(lab.node(1))
    lab.send(2, 1, "one", DATAGRAM)
    lab.run(300 * MS)
    lab.sim.publish(lab.node(1), batch(1, 1))
    lab.send(2, 1, "two", DATAGRAM)
    lab.run(300 * MS)
    lab.sim.crash(lab.node(2))
    lab.run(300 * MS)
    assert lab[1].events() == []
    lab.sim.resume(lab.node(1))
    # One answer to each connect: the up of 2 was not told before its down came.
    assert lab[1].events() == [
        ("one", 2), ("up", 3), ("publish", 1), ("two", 2), ("down", 2), ("timer", "alarm"),
    ]  # fmt: skip
    assert {entry[0] for entry in lab[1].log[1:]} == {900 * MS}
    lab.run(SECOND)
    assert len(lab[1].log) == 7


def test_timers_that_are_not_due_yet_survive_a_pause():
    lab = Lab(1)
    lab[1].timers.set("alarm", SECOND)
    lab.act(1, lambda fx: None)
    lab.sim.pause(lab.node(1))
    lab.run(500 * MS)
    lab.sim.resume(lab.node(1))
    lab.run(SECOND)
    assert lab[1].times("timer") == [SECOND]


def test_a_pause_ends_with_the_process():
    lab = Lab(2)
    lab.sim.pause(lab.node(1))
    lab.send(2, 1, "lost", DATAGRAM)
    lab.run(SECOND)
    lab.sim.crash(lab.node(1))
    lab.sim.start(lab.node(1))
    lab.send(2, 1, "heard", DATAGRAM)
    lab.run(SECOND)
    assert lab[1].texts() == ["heard"]


def test_a_paused_node_wakes_up_to_leave_in_good_order():
    lab = Lab(2)
    probe = lab[1]
    lab.sim.pause(lab.node(1))
    lab.send(2, 1, "waiting", DATAGRAM)
    lab.run(SECOND)
    lab.sim.stop(lab.node(1))
    assert probe.texts() == ["waiting", "stop"]


# -- service time ---------------------------------------------------------------------------------


def test_messages_wait_while_a_node_is_busy_and_are_then_taken_together():
    service = Service(per_message_ns=100 * MS, per_byte_ns=1000.0)
    lab = Lab(3, latency=ConstantLatency(10 * MS), service=service)
    for number, source in enumerate((2, 2, 3, 2)):
        lab.at(number * MS, lab.send, source, 1, str(number), DATAGRAM)
    lab.run(SECOND)
    size = Note("0").wire_size() * US
    first = 10 * MS + 100 * MS + size
    rest = first + 300 * MS + 3 * size
    assert lab[1].log[1:] == [(first, "0", 2), (rest, "1", 2), (rest, "2", 3), (rest, "3", 2)]


def test_the_end_of_a_connection_waits_its_turn():
    lab = Lab(2, service=Service(per_message_ns=50 * MS))
    lab.link(1, 2)
    lab[2].reactions["down"] = lambda fx: fx.connect(Peer(1))
    for number in range(3):
        lab.send(1, 2, str(number))
    lab.sim.crash(lab.node(1))
    lab.sim.start(lab.node(1))
    lab.run(5 * SECOND)
    assert lab[2].texts() == ["0", "1", "2", "down", "up"]


def test_what_a_node_was_busy_with_dies_with_it():
    lab = Lab(2, service=Service(per_message_ns=100 * MS))
    lab.send(2, 1, "being served", DATAGRAM)
    lab.run(5 * MS)
    lab.send(2, 1, "waiting", DATAGRAM)
    lab.run(5 * MS)
    lab.sim.crash(lab.node(1))
    lab.sim.start(lab.node(1))
    lab.send(2, 1, "new", DATAGRAM)
    sent = lab.sim.now
    lab.run(SECOND)
    assert lab[1].log[1:] == [(sent + MS + 100 * MS, "new", 2)]


def test_a_busy_node_has_room_for_so_much():
    lab = Lab(2, service=Service(per_message_ns=SECOND), conditions=Conditions(max_waiting=3))
    for number in range(6):
        lab.send(2, 1, str(number), DATAGRAM)
    lab.run(10 * SECOND)
    assert lab[1].texts() == ["0", "1", "2", "3"]  # one in service, three in the queue
    assert lab.sim.drops == {"overloaded": 2}


def test_pauses_and_service_together_keep_the_order():
    lab = Lab(2, service=Service(per_message_ns=50 * MS))
    lab.link(1, 2)
    for number in range(3):
        lab.send(1, 2, str(number))
    lab.run(10 * MS)
    lab.sim.pause(lab.node(2))
    lab.sim.crash(lab.node(1))
    lab.run(SECOND)
    lab.sim.resume(lab.node(2))
    assert lab[2].texts() == ["0", "1", "2", "down"]


# -- publishing -----------------------------------------------------------------------------------


def test_publishers_wait_while_the_protocol_has_no_room():
    lab = Lab(2)
    probe = lab[1]
    probe.room = 0
    for number in (1, 2, 3):
        lab.sim.publish(lab.node(1), batch(1, number))
    lab.run(SECOND)
    assert probe.events() == []

    def take_one(fx: Effects) -> None:
        probe.room -= 1

    probe.reactions = {"publish": take_one, "room": lambda fx: setattr(probe, "room", 2)}
    lab.send(2, 1, "room", DATAGRAM)
    lab.run(SECOND)
    assert probe.events() == [("room", 2), ("publish", 1), ("publish", 2)]
    lab.sim.publish(lab.node(1), batch(1, 4))
    lab.send(2, 1, "room", DATAGRAM)
    lab.run(SECOND)
    assert probe.events("publish") == [
        ("publish", 1),
        ("publish", 2),
        ("publish", 3),
        ("publish", 4),
    ]
    assert not lab.node(1).special


def test_topics_do_not_hold_up_each_other():
    probes: dict[int, Probe] = {}

    def make(peer: Peer, rng: Random) -> Host:
        host = Host(peer, HostConfig(), rng)
        for topic in (4, 9):
            probes[topic] = Probe(peer, rng)
            host.add(topic, probes[topic])
        return host

    sim = Simulation(1)
    node = sim.add_node(make)
    sim.run_for(SECOND)
    probes[4].room = 0
    for number, topic in enumerate((4, 9, 4, 9), 1):
        sim.publish(node, batch(1, number), topic)
    sim.run_for(SECOND)
    assert probes[4].events() == []
    assert probes[9].events() == [("publish", 2), ("publish", 4)]
    probes[4].room = 5
    sim.publish(node, batch(1, 5), 4)  # behind those that wait
    sim.stimulate(node, "on_timer")
    sim.run_for(SECOND)
    assert probes[4].events() == [("publish", 1), ("publish", 3), ("publish", 5)]


def test_a_publisher_that_was_paused_finds_the_room_there_is():
    lab = Lab(1)
    lab.sim.pause(lab.node(1))
    lab.sim.publish(lab.node(1), batch(1, 1))
    lab[1].room = 0
    lab.sim.resume(lab.node(1))
    lab.run(SECOND)
    assert lab[1].events() == []
    lab[1].room = 1
    lab.act(1, lambda fx: None)
    lab.run(SECOND)
    assert lab[1].events() == [("publish", 1)]


def test_there_is_an_end_to_the_publications_that_wait():
    lab = Lab(1, max_unpublished=2)
    lab[1].room = 0
    for number in (1, 2, 3):
        lab.sim.publish(lab.node(1), batch(1, number))
    assert lab.sim.drops == {"too many publications wait": 1}
    lab.sim.crash(lab.node(1))
    lab.sim.start(lab.node(1))
    lab.run(SECOND)
    assert lab[1].events() == []


def test_an_application_may_publish_in_answer_to_a_delivery():
    lab = Lab(2)
    seen = []

    def answer(now: int, node: int, delivered) -> None:
        seen.append((node, delivered.first))
        if delivered.first < 3:
            lab.sim.publish(lab.node(2), batch(2, delivered.first + 1))

    lab.sim.on_delivery = answer
    for node in (1, 2):
        lab[node].reactions["publish"] = lambda fx, p=lab[node]: (
            fx.deliver(batch(2, p.events("publish")[-1][1])),
            fx.send(1, Note("published"), DATAGRAM),
        )
    lab.act(1, lambda fx: (fx.deliver(batch(2, 1)), fx.send(2, Note("of the first"), DATAGRAM)))
    lab.run(SECOND)
    assert seen == [(1, 1), (2, 2), (2, 3)]
    assert lab[2].texts() == ["publish", "publish", "of the first"]
    assert lab[1].texts() == ["published", "published"]


def test_a_host_of_topics_runs_in_the_simulator():
    delivered = []
    everybody = [1, 2, 3]

    def make(peer: Peer, rng: Random) -> Host:
        host = Host(peer, HostConfig(), rng)
        for topic in (4, 9):
            peers = FullMembership(peer.id, everybody, rng)
            host.add(topic, PushGossip(peer, PushGossipConfig(fanout=2), rng, peers))
        return host

    sim = Simulation(1, on_delivery=lambda now, node, each: delivered.append((node, each.first)))
    for _ in everybody:
        sim.add_node(make)
    sim.publish(sim.nodes[1], batch(1, 1), topic=4)
    sim.run_for(SECOND)
    assert sorted(delivered) == [(1, 1), (2, 1), (3, 1)]
    sim.publish(sim.nodes[1], batch(1, 2), topic=9)
    sim.run_for(SECOND)
    assert sorted(delivered)[-3:] == [(2, 2), (3, 1), (3, 2)]


# -- timers ---------------------------------------------------------------------------------------


def test_timers_fire_on_time_however_they_are_moved():
    lab = Lab(1)
    timers = lab[1].timers

    def move(name: str, at: int) -> None:
        lab.act(1, lambda fx: timers.set(name, at))

    move("late", 10 * SECOND)
    move("early", SECOND)
    move("early", 3 * SECOND)
    lab.run(2 * SECOND)
    move("late", 4 * SECOND)
    move("never", 6 * SECOND)
    lab.act(1, lambda fx: timers.cancel("never"))
    lab.run(20 * SECOND)
    assert lab[1].log[1:] == [(3 * SECOND, "timer", "early"), (4 * SECOND, "timer", "late")]


def test_a_deadline_that_moves_with_every_message_does_not_fill_the_queue():
    lab = Lab(2)
    timers = lab[1].timers
    timers.set("far", 1000 * SECOND)
    lab[1].reactions["tick"] = lambda fx: timers.set("idle", lab.sim.now + 60 * SECOND)
    lab[1].reactions["timer"] = lambda fx: None
    for number in range(2000):
        lab.at(number * MS, lab.send, 2, 1, "tick", DATAGRAM)
    lab.run(2 * SECOND)
    assert len(lab.sim.scheduler) <= 5
    lab.run(70 * SECOND)
    assert lab[1].times("timer") == [MS * 2000 + 60 * SECOND]


def test_short_timers_do_not_fill_the_queue_with_alarms_for_long_ones():
    lab = Lab(1)
    timers = lab[1].timers
    timers.set("far", 1000 * SECOND)
    timers.set("short", MS)
    lab[1].reactions["timer"] = lambda fx: timers.set("short", lab.sim.now + MS)
    lab.act(1, lambda fx: None)
    lab.run(SECOND)
    assert len(lab[1].times("timer")) == 1000
    assert len(lab.sim.scheduler) <= 5


# -- traces ---------------------------------------------------------------------------------------


def test_a_trace_tells_what_happened():
    trace = Trace()
    lab = Lab(2, trace=trace, disk_sync_ns=MS)
    lab.connect(1, 2)
    lab.run(SECOND)
    lab.send(1, 2, "hello", DATAGRAM)
    lab.sim.publish(lab.node(1), batch(1, 1))
    lab.act(1, lambda fx: (fx.deliver(batch(1, 1)), fx.append(batch(1, 1)), fx.drop("why", 2)))
    lab.act(1, lambda fx: (fx.neighbor_up(2), fx.neighbor_down(2), fx.disconnect(2)))
    lab.run(SECOND)
    lab.sim.stop(lab.node(1))
    lab.sim.crash(lab.node(2))
    kinds = [TraceKind(int(kind)).name for kind in trace.columns()["kind"]]
    assert kinds == [
        "START", "START", "CONNECT", "PEER_UP", "SEND", "PUBLISH", "DELIVER", "DROP", "VIEW_ADD",
        "VIEW_REMOVE", "DISCONNECT", "RECEIVE", "APPEND", "STOP", "CRASH",
    ]  # fmt: skip
    assert lab.sim.drops == {"why": 1}
