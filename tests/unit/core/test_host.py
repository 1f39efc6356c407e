"""Many topics on one node: who hears what, and how topics come and go."""

from random import Random
from typing import Any

import pytest

from epicast.core import (
    DATA,
    ConfigError,
    Effects,
    Group,
    Host,
    HostConfig,
    InvariantViolation,
    Layered,
    Peer,
    Publication,
    Recovered,
    TopicDelivery,
)
from epicast.core import effects as fx_module
from epicast.core.effects import Disconnect, Drop, Leave, Read, Refuse, Save
from tests.unit.core.hosts import asks, host_with, poke, told
from tests.unit.core.probes import NODE, Note, Probe, batch_of

BATCH = batch_of(b"a", b"b")


# -- messages, publications, deliveries ------------------------------------------------------------


def test_messages_carry_their_topic_both_ways() -> None:
    fx = Effects()
    seven, eight = Probe("7", messages=asks("send", 5, Note("out"), DATA)), Probe("8")
    host = host_with(fx, (7, seven), (8, eight))
    host.on_messages(
        0, 9, (Layered(8, Note("a")), Layered(7, Note("b")), Layered(8, Note("c"))), fx
    )
    assert seven.log == [("7", "messages", (9, [Note("b")]))]
    assert [subject for _, _, subject in eight.log] == [(9, [Note("a")]), (9, [Note("c")])]
    assert fx.sends == [(5, Layered(7, Note("out")), DATA)]


def test_a_message_for_no_topic_is_dropped_and_the_rest_handled() -> None:
    fx = Effects()
    seven = Probe("7")
    host = host_with(fx, (7, seven))
    host.on_messages(0, 9, (Note("bare"), Layered(8, Note("a")), Layered(7, Note("b"))), fx)
    assert fx.operations == [Drop("no such topic", 9, 0, 0, 0)] * 2
    assert seven.log == [("7", "messages", (9, [Note("b")]))]


def test_publications_go_to_the_topic_they_name_in_order() -> None:
    fx = Effects()
    seven, eight = Probe("7"), Probe("8")
    host = host_with(fx, (7, seven), (8, eight))
    publications = [Publication(1, n, BATCH, topic) for n, topic in enumerate((7, 8, 7, 9, 0))]
    host.on_publish(0, publications, fx)
    assert (told(seven), told(eight)) == ([("publish", [0, 2])], [("publish", [1])])
    assert fx.operations == [
        Refuse(publications[3], "topic 9 does not run here; add it first"),
        Refuse(publications[4], "topic 0 does not run here; add it first"),
    ]


def test_deliveries_say_their_topic() -> None:
    fx = Effects()
    seven = Probe("7", messages=asks("deliver", BATCH))
    eight = Probe("8", messages=asks("deliver_after_append", BATCH))
    host = host_with(fx, (7, seven), (8, eight))
    poke(host, 7, fx)
    poke(host, 8, fx)
    assert fx.operations == [TopicDelivery(7, BATCH), fx_module.DeliverAfterAppend(BATCH, 8)]
    assert not fx.deliveries


def test_one_full_topic_does_not_stop_another() -> None:
    fx = Effects()
    seven, eight = Probe("7"), Probe("8")
    host = host_with(fx, (7, seven), (8, eight))
    seven.room, eight.room = 0, 50
    assert (host.topic_room(7), host.topic_room(8), host.publish_room()) == (0, 50, 0)
    assert host.topic_room(9) > 0  # to be refused at once
    assert host_with(Effects()).publish_room() > 0


# -- timers ----------------------------------------------------------------------------------------


def test_topics_are_served_by_deadline_so_many_at_a_time() -> None:
    fx = Effects()
    log: list[Any] = []
    topics = [(n, Probe(str(n), log)) for n in range(1, 7)]
    host = host_with(fx, *topics, topics_per_step=2)
    for number, probe in topics:
        probe.timers.set("t", 100 - number)
    topics[2][1].timers.set("u", 99)
    assert host.next_deadline() == 94
    host.on_timer(98, fx)
    assert [who for who, _, _ in log] == ["6", "5"]
    assert host.next_deadline() == 96  # the driver comes back at once
    host.on_timer(98, fx)
    host.on_timer(98, fx)
    assert [who for who, _, _ in log] == ["6", "5", "4", "3", "2"]
    assert host.next_deadline() == 99
    host.on_timer(99, fx)
    assert log[-2:] == [("1", "deadline", "t"), ("3", "deadline", "u")]
    assert host.next_deadline() is None


def test_a_topic_that_leaves_a_timer_for_later_is_asked_again() -> None:
    class OneAtATime(Probe):
        def on_timer(self, now: int, fx: Effects) -> None:
            if self.log:  # takes its time
                super().on_timer(now, fx)
            self.log.append("asked")

    fx = Effects()
    slow = OneAtATime("slow")
    host = host_with(fx, (1, slow))
    slow.timers.set("t", 10)
    host.on_timer(10, fx)
    assert host.next_deadline() == 10
    host.on_timer(10, fx)
    assert slow.log == ["asked", ("slow", "deadline", "t"), "asked"]


def test_a_topic_that_is_always_due_does_not_starve_the_others() -> None:
    fx = Effects()
    log: list[Any] = []
    greedy = Probe("greedy", log, deadline=lambda p, now, name, fx: p.timers.set(name, now))
    topics = [(1, greedy), (2, Probe("2", log)), (3, Probe("3", log))]
    host = host_with(fx, *topics, topics_per_step=1)
    for _, probe in topics:
        probe.timers.set("t", 10)
    for _ in range(3):
        host.on_timer(10, fx)
    assert {who for who, _, _ in log} >= {"greedy"}
    for now in (11, 12, 13):
        host.on_timer(now, fx)
    assert {who for who, _, _ in log} == {"greedy", "2", "3"}


# -- storage ---------------------------------------------------------------------------------------


def test_storage_answers_go_to_the_topic_that_asked() -> None:
    fx = Effects()
    seven = Probe("7", messages=asks("append", batch_of(b"x", stream=70)))
    eight = Probe("8", messages=asks("read", 80, 1, 1000, 3))
    host = host_with(fx, (7, seven), (8, eight))
    poke(host, 7, fx)
    poke(host, 8, fx)
    append, read = fx.operations
    assert isinstance(append, fx_module.Append) and isinstance(read, Read)
    host.on_appended(0, 70, 1, fx)
    host.on_append_failed(0, 70, 2, "disk full", fx)
    host.on_appended(0, 71, 1, fx)  # nobody's
    host.on_read(0, read.token, (BATCH,), fx)
    assert told(seven) == [("appended", (70, 1)), ("append failed", (70, 2, "disk full"))]
    assert told(eight) == [("read", (3, [BATCH]))]


def test_a_stream_is_appended_to_by_one_topic() -> None:
    fx = Effects()
    probes = [Probe(str(n), messages=asks("append", BATCH)) for n in (7, 8)]
    host = host_with(fx, (7, probes[0]), (8, probes[1]))
    poke(host, 7, fx)
    with pytest.raises(RuntimeError, match="stream 1 is topic 7's"):
        poke(host, 8, fx)
    host.remove(7)
    poke(host, 8, fx)


def test_what_topics_save_does_not_meet_and_comes_back_after_a_restart() -> None:
    fx = Effects()
    seven, eight = Probe("7", start=asks("save", "epoch", b"a")), Probe("8")
    host_with(fx, (7, seven), (8, eight))
    (save,) = fx.operations
    assert isinstance(save, Save)
    seven, eight = Probe("7"), Probe("8")
    host = Host(NODE, HostConfig(), Random(1))
    host.add(7, seven)
    host.add(8, eight)
    recovered = Recovered(incarnation=2, log_ends={70: 5}, saved={save.name: save.value})
    host.on_start(0, (), recovered, Effects())
    assert (seven.recovered.saved, eight.recovered.saved) == ({"epoch": b"a"}, {})
    assert seven.recovered.log_ends == eight.recovered.log_ends == {70: 5}


def test_a_topic_that_starts_again_finds_what_it_stored_last() -> None:
    fx = Effects()
    first = Probe("7", messages=asks("save", "epoch", b"newer"))
    first.reactions["start"] = lambda p, now, _, fx: (fx.append(BATCH), fx.read(1, 1, 10, 4))
    host = host_with(fx, (7, first))
    read = next(op for op in fx.operations if isinstance(op, Read))
    poke(host, 7, fx)
    host.on_appended(0, 1, 2, fx)
    host.remove(7)
    second = Probe("7")
    host.add(7, second)
    host.on_timer(0, fx)
    assert second.recovered.saved == {"epoch": b"newer"}
    assert second.recovered.log_ends == {1: 2}
    assert second.recovered.incarnation > first.recovered.incarnation
    host.on_read(0, read.token, (BATCH,), fx)  # the answer to its predecessor
    assert told(second) == [("start", [2])]


def test_incarnations_grow_with_every_start_of_node_or_topic() -> None:
    seen = []
    for incarnation in (1, 2):
        host = Host(NODE, HostConfig(), Random(1))
        fx = Effects()
        host.on_start(0, (), Recovered(incarnation), fx)
        for _ in range(3):
            probe = Probe("7")
            host.add(7, probe)
            host.on_timer(0, fx)
            seen.append(probe.recovered.incarnation)
            host.remove(7)
            host.on_timer(0, fx)
    assert seen == sorted(set(seen))


# -- topics come and go ----------------------------------------------------------------------------


def test_topics_added_before_the_start_are_started_with_the_node() -> None:
    host = Host(NODE, HostConfig(), Random(1))
    own, given_ = Probe("own"), Probe("given")
    host.add(7, own)
    host.add(8, given_, contacts=(Peer(4),))
    host.on_start(0, (Peer(2),), Recovered(), Effects())
    assert told(own) == [("start", [2])]
    assert told(given_) == [("start", [4])]
    assert host.topics == [7, 8]
    assert host.protocol(7) is own and host.protocol(9) is None
    assert host.next_deadline() is None


def test_a_topic_added_between_steps_makes_the_next_step_due_at_once() -> None:
    fx = Effects()
    host = host_with(fx)
    probe = Probe("7")
    host.add(7, probe, contacts=())
    assert host.next_deadline() == 0
    assert told(probe) == []
    poke(host, 7, fx)  # whatever the next step is
    assert [what for _, what, _ in probe.log] == ["start", "messages"]
    assert host.next_deadline() is None


def test_a_topic_added_by_a_handler_starts_at_the_end_of_the_step() -> None:
    fx = Effects()
    log: list[Any] = []
    newcomer = Probe("8", log)
    host = host_with(fx, (7, Probe("7", log)))
    protocol = host.protocol(7)
    assert isinstance(protocol, Probe)
    protocol.reactions["messages"] = lambda p, now, _, fx: host.add(8, newcomer)
    host.on_messages(0, 9, (Layered(7, Note("a")), Layered(8, Note("too early"))), fx)
    assert [(who, what) for who, what, _ in log] == [("7", "messages"), ("8", "start")]
    assert fx.operations == [Drop("no such topic", 9, 0, 0, 0)]


def test_a_removed_topic_says_goodbye_and_leaves_nothing_behind() -> None:
    fx = Effects()
    seven = Probe("7", stop=asks("send", 5, Note("goodbye")))
    eight = Probe("8", messages=asks("connect", Peer(6)))
    seven.reactions["messages"] = lambda p, now, _, fx: (
        fx.connect(Peer(5)), fx.connect(Peer(6)), fx.join(Group(1)), p.timers.set("t", 50),
    )  # fmt: skip
    host = host_with(fx, (7, seven), (8, eight))
    poke(host, 7, fx)
    poke(host, 8, fx)
    fx.clear()
    host.remove(7)
    assert host.topics == [7, 8]
    host.on_timer(0, fx)
    assert host.topics == [8]
    assert fx.sends == [(5, Layered(7, Note("goodbye")), 0)]
    assert fx.operations == [Disconnect(5), Leave(Group(1))]  # topic 8 still wants peer 6
    assert host.next_deadline() is None
    seven.timers.set("t", 1)
    assert host.next_deadline() is None
    fx.clear()
    poke(host, 7, fx)
    assert fx.operations == [Drop("no such topic", 99, 0, 0, 0)]
    host.check_invariants()


def test_a_topic_can_be_replaced_in_one_go() -> None:
    fx = Effects()
    old, new = Probe("old"), Probe("new")
    host = host_with(fx, (7, old))
    host.remove(7)
    host.add(7, new)
    host.on_timer(0, fx)
    assert told(old) == [("stop", None)]
    assert told(new) == [("start", [2])]
    assert host.protocol(7) is new


@pytest.mark.parametrize(
    ("topic", "complaint"),
    [(0, "not between 1 and"), (2**32, "not between 1 and"), (7, "already"), (9, "one too many")],
)
def test_topics_that_cannot_be_added(topic: int, complaint: str) -> None:
    host = host_with(Effects(), (7, Probe()), (8, Probe()), max_topics=2)
    with pytest.raises(ConfigError, match=complaint):
        host.add(topic, Probe())


def test_a_topic_that_does_not_run_cannot_be_removed() -> None:
    host = host_with(Effects(), (7, Probe()))
    host.remove(7)
    with pytest.raises(ConfigError, match="topic 7 does not run"):
        host.remove(7)


@pytest.mark.parametrize("wrong", [{"max_topics": 0}, {"topics_per_step": 0}])
def test_limits_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        HostConfig(**wrong)


def test_topics_that_never_come_to_rest_are_found_out() -> None:
    fx = Effects()
    seven = Probe("7", messages=asks("connect", Peer(5)))
    host = host_with(fx, (7, seven))
    poke(host, 7, fx)
    seven.reactions["up"] = asks("connect", Peer(5))  # up already: answered, asks again, ...
    with pytest.raises(InvariantViolation, match="keep changing"):
        host.on_peer_up(0, 5, fx)


def test_stopping_the_node_stops_every_topic() -> None:
    fx = Effects()
    seven, eight = Probe("7"), Probe("8")
    host = host_with(fx, (7, seven), (8, eight))
    host.on_stop(0, fx)
    assert told(seven) == told(eight) == [("stop", None)]


def test_asking_a_host() -> None:
    seven, eight = Probe("7"), Probe("8")
    host = host_with(Effects(), (7, seven), (8, eight))
    seven.peers, eight.peers = [4, 2], [2, 3]
    assert host.neighbors() == [4, 2, 3]
    assert host.statistics() == {"topics": 2, "links": 0, "7.peers": 2, "8.peers": 2}
    host.check_invariants()
    assert seven.log == [("7", "invariants", None)]


def test_a_new_buffer_reaches_every_topic() -> None:
    fx, other = Effects(), Effects()
    host = host_with(fx, (7, Probe("7", messages=asks("send", 5, Note("x")))))
    poke(host, 7, other)
    assert (len(fx.sends), len(other.sends)) == (0, 1)
