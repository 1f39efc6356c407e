"""The base class: dispatch by message type, timers, and what it does when nothing is overridden."""

from random import Random

import pytest

from epicast.core import Effects, Message, NodeId, Peer, Protocol, Recovered, handles
from epicast.core.effects import Drop
from tests.unit.core.probes import NODE, Probe, batch_of


class Ping(Message):
    number: int = 0


class Pong(Message):
    number: int = 0


class Unknown(Message):
    pass


class Pinger(Protocol[None]):
    def __init__(self) -> None:
        super().__init__(NODE, None, Random(1))
        self.heard: list[tuple[str, int, NodeId, int]] = []

    @handles(Ping)
    def _handle_ping(self, now: int, source: NodeId, message: Ping, fx: Effects) -> None:
        self.heard.append(("ping", now, source, message.number))


class PongMixin:
    @handles(Pong)
    def _handle_pong(self, now: int, source: NodeId, message: Pong, fx: Effects) -> None:
        self.heard.append(("pong", now, source, message.number))  # type: ignore[attr-defined]


class Both(PongMixin, Pinger):
    pass


class Replaced(Pinger):
    @handles(Ping)
    def _handle_otherwise(self, now: int, source: NodeId, message: Ping, fx: Effects) -> None:
        self.heard.append(("otherwise", now, source, message.number))


class Overridden(Pinger):
    def _handle_ping(self, now: int, source: NodeId, message: Ping, fx: Effects) -> None:
        super()._handle_ping(now, source, message, fx)
        self.heard.append(("overridden", now, source, message.number))


def test_messages_go_to_their_handlers_in_order() -> None:
    protocol, fx = Both(), Effects()
    protocol.on_messages(5, 9, [Ping(1), Pong(2), Ping(3)], fx)
    assert protocol.heard == [("ping", 5, 9, 1), ("pong", 5, 9, 2), ("ping", 5, 9, 3)]
    assert not fx


def test_what_has_no_handler_is_dropped_and_the_rest_handled() -> None:
    protocol, fx = Pinger(), Effects()
    protocol.on_messages(5, 9, [Unknown(), Pong(1), Ping(2)], fx)
    assert fx.operations == [
        Drop("unexpected Unknown", 9, 0, 0, 0),
        Drop("unexpected Pong", 9, 0, 0, 0),
    ]
    assert protocol.heard == [("ping", 5, 9, 2)]


@pytest.mark.parametrize(
    ("protocol_type", "expected"),
    [(Replaced, ["otherwise"]), (Overridden, ["ping", "overridden"]), (Pinger, ["ping"])],
)
def test_a_subclass_can_replace_a_handler(protocol_type: type[Pinger], expected: list[str]) -> None:
    protocol = protocol_type()
    protocol.on_messages(0, 2, [Ping(1)], Effects())
    assert [name for name, *_ in protocol.heard] == expected


def test_two_handlers_for_one_type_are_a_mistake() -> None:
    with pytest.raises(TypeError, match="two handlers"):

        class Confused(Protocol[None]):
            @handles(Ping)
            def _handle_ping(self, *arguments: object) -> None: ...

            @handles(Ping)
            def _handle_ping_too(self, *arguments: object) -> None: ...


def test_deadlines_come_by_time_then_name_and_only_when_due() -> None:
    probe = Probe()
    for name, at in [("late", 30), ("b", 20), ("a", 20), ("early", 10)]:
        probe.timers.set(name, at)
    assert probe.next_deadline() == 10
    probe.on_timer(20, Effects())
    assert [name for _, _, name in probe.log] == ["early", "a", "b"]
    assert probe.next_deadline() == 30
    probe.on_timer(30, Effects())
    assert probe.next_deadline() is None


def test_a_timer_cancelled_by_another_does_not_fire() -> None:
    probe = Probe(deadline=lambda self, now, name, fx: self.timers.cancel("b"))
    probe.timers.set("a", 10)
    probe.timers.set("b", 10)
    probe.on_timer(10, Effects())
    assert probe.log == [("probe", "deadline", "a")]
    assert probe.next_deadline() is None


def test_a_timer_moved_by_another_fires_at_its_new_time_only() -> None:
    probe = Probe(deadline=lambda self, now, name, fx: self.timers.set("b", 50))
    probe.timers.set("a", 10)
    probe.timers.set("b", 10)
    probe.on_timer(10, Effects())
    assert probe.log == [("probe", "deadline", "a")]
    assert probe.next_deadline() == 50


def test_a_timer_that_rearms_itself_for_now_waits_for_the_next_step() -> None:
    probe = Probe(deadline=lambda self, now, name, fx: self.timers.set(name, now))
    probe.timers.set("again", 10)
    probe.on_timer(10, Effects())
    assert probe.log == [("probe", "deadline", "again")]
    assert probe.next_deadline() == 10


def test_a_protocol_that_overrides_nothing() -> None:
    class Idle(Protocol[None]):
        pass

    idle, fx, batch = Idle(NODE, None, Random(1)), Effects(), batch_of(b"a")
    idle.on_start(0, (Peer(2),), Recovered(), fx)
    idle.on_publish(0, (), fx)
    idle.on_appended(0, 1, 1, fx)
    idle.on_append_failed(0, 1, 1, "disk full", fx)
    idle.on_read(0, 1, (batch,), fx)
    idle.on_ready(0, 2, 100, fx)
    idle.on_peer_up(0, 2, fx)
    idle.on_peer_down(0, 2, fx)
    idle.on_timer(0, fx)
    idle.on_stop(0, fx)
    idle.check_invariants()
    assert not fx
    idle.on_delivery(0, batch, fx)
    assert fx.deliveries == [batch]
    assert idle.publish_room() > 0
    assert (idle.sample(3), idle.neighbors(), dict(idle.statistics())) == ([], [], {})


def test_peers_come_from_the_layer_below() -> None:
    class Idle(Protocol[None]):
        pass

    idle, below = Idle(NODE, None, Random(1)), Probe()
    below.peers = [4, 5, 6]
    idle.below = below
    assert idle.sample(2) == [4, 5]
