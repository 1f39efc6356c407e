"""Connections, groups and room shared by the topics of a host."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import (
    DATA,
    Effects,
    Group,
    Host,
    HostConfig,
    Layered,
    NodeId,
    Peer,
    Protocol,
    Recovered,
)
from epicast.core.effects import Connect, Disconnect, Join, Leave
from tests.unit.core.hosts import asks, host_with, poke, told
from tests.unit.core.probes import NODE, Note, Probe, batch_of

BATCH = batch_of(b"a", b"b")


# -- connections -----------------------------------------------------------------------------------


def test_the_driver_sees_the_first_connect_and_the_last_disconnect() -> None:
    fx = Effects()
    seven, eight = Probe("7"), Probe("8")
    host = host_with(fx, (7, seven), (8, eight))
    for probe in (seven, eight):
        probe.reactions["messages"] = asks("connect", Peer(5, "h", 1))
    poke(host, 7, fx)
    poke(host, 8, fx)
    poke(host, 7, fx)
    assert fx.operations == [Connect(Peer(5, "h", 1))]
    host.on_peer_up(0, 5, fx)
    assert told(seven) == told(eight) == [("up", 5)]

    fx.clear()
    for probe in (seven, eight):
        probe.reactions["messages"] = asks("disconnect", 5)
    poke(host, 7, fx)
    assert not fx.operations
    poke(host, 8, fx)
    poke(host, 8, fx)
    assert fx.operations == [Disconnect(5)]
    assert told(seven) == told(eight) == [("up", 5)]  # the end of an interest is silent


def test_connecting_to_a_peer_that_is_up_is_answered_in_the_same_step() -> None:
    fx = Effects()
    log: list[Any] = []
    seven = Probe("7", log, messages=asks("connect", Peer(5)))
    eight = Probe("8", log, messages=asks("connect", Peer(5)))
    host = host_with(fx, (7, seven), (8, eight))
    poke(host, 7, fx)
    host.on_peer_up(0, 5, fx)
    log.clear()
    fx.clear()
    host.on_messages(0, 9, (Layered(8, Note("a")), Layered(7, Note("b"))), fx)
    # At the end of the step, not in the middle of it; asking again is answered again.
    assert [(who, what) for who, what, _ in log] == [
        ("8", "messages"), ("7", "messages"), ("8", "up"), ("7", "up")
    ]  # fmt: skip
    assert not fx.operations


def test_an_interest_ended_in_the_same_step_is_not_answered() -> None:
    fx = Effects()
    seven = Probe("7", messages=asks("connect", Peer(5)))
    eight = Probe("8", messages=lambda p, now, _, fx: (fx.connect(Peer(5)), fx.disconnect(5)))
    host = host_with(fx, (7, seven), (8, eight))
    poke(host, 7, fx)
    host.on_peer_up(0, 5, fx)
    poke(host, 8, fx)
    assert told(eight) == []


def test_a_down_ends_every_interest_and_comes_once() -> None:
    fx = Effects()
    seven, eight, nine = Probe("7"), Probe("8"), Probe("9")
    host = host_with(fx, (7, seven), (8, eight), (9, nine))
    for topic, probe in ((7, seven), (8, eight)):
        probe.reactions["messages"] = asks("connect", Peer(5))
        poke(host, topic, fx)
    host.on_peer_up(0, 5, fx)
    host.on_peer_down(0, 5, fx)
    host.on_peer_down(0, 5, fx)
    host.on_peer_up(0, 5, fx)
    assert told(seven) == told(eight) == [("up", 5), ("down", 5)]
    assert told(nine) == []


def test_connecting_again_when_told_of_a_down_asks_the_driver_again() -> None:
    fx = Effects()
    seven = Probe("7", messages=asks("connect", Peer(5)), down=asks("connect", Peer(5)))
    eight = Probe("8", messages=asks("connect", Peer(5)))
    host = host_with(fx, (7, seven), (8, eight))
    poke(host, 7, fx)
    poke(host, 8, fx)
    host.on_peer_up(0, 5, fx)
    fx.clear()
    host.on_peer_down(0, 5, fx)
    assert fx.operations == [Connect(Peer(5))]
    assert told(eight) == [("up", 5), ("down", 5)]
    host.on_peer_up(0, 5, fx)
    assert told(seven) == [("up", 5), ("down", 5), ("up", 5)]
    assert told(eight) == [("up", 5), ("down", 5)]


class Driver:
    """The dumbest driver that keeps the contract: connections go up and down when told to."""

    def __init__(self, protocol: Protocol[Any]) -> None:
        self.protocol = protocol
        self.fx = Effects()
        self.wanted: dict[NodeId, bool] = {}
        """Peers the node is interested in, and whether it was told they are up."""

    def step(self, method: str, *arguments: Any) -> None:
        getattr(self.protocol, method)(0, *arguments, self.fx)
        for operation in self.fx.operations:
            if isinstance(operation, Connect):
                self.wanted[operation.peer.id] = False
            elif isinstance(operation, Disconnect):
                del self.wanted[operation.peer]
        self.fx.clear()

    def up(self, peer: NodeId) -> None:
        if self.wanted.get(peer) is False:
            self.wanted[peer] = True
            self.step("on_peer_up", peer)

    def down(self, peer: NodeId) -> None:
        if self.wanted.pop(peer, None) is not None:
            self.step("on_peer_down", peer)


class Contract:
    """What one topic may be told about one peer, by the rules of `epicast.core.protocol`."""

    def __init__(self) -> None:
        self.state = "none"

    def asked(self) -> None:
        self.state = "asked"

    def ended(self) -> None:
        self.state = "none"

    def told(self, what: str) -> None:
        assert self.state in {"up": ("asked",), "down": ("asked", "up")}[what], (what, self.state)
        self.state = "up" if what == "up" else "none"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["connect", "disconnect", "up", "down", "remove", "add"]),
            st.integers(1, 3),
            st.integers(10, 11),
        ),
        max_size=50,
    )
)
def test_every_topic_gets_what_the_contract_promises(script: list[tuple[str, int, int]]) -> None:
    contracts: dict[tuple[int, int], Contract] = {}

    def contract(topic: int, peer: int) -> Contract:
        return contracts.setdefault((topic, peer), Contract())

    def topic_probe(topic: int) -> Probe:
        def act(probe: Probe, now: int, subject: Any, fx: Effects) -> None:
            what, peer = subject[1][0].text.split()
            if what == "connect":
                fx.connect(Peer(int(peer)))
                contract(topic, int(peer)).asked()
            else:
                fx.disconnect(int(peer))
                contract(topic, int(peer)).ended()

        return Probe(
            str(topic),
            messages=act,
            up=lambda p, now, peer, fx: contract(topic, peer).told("up"),
            down=lambda p, now, peer, fx: contract(topic, peer).told("down"),
        )

    host = Host(NODE, HostConfig(), Random(1))
    for topic in (1, 2, 3):
        host.add(topic, topic_probe(topic))
    driver = Driver(host)
    driver.step("on_start", (), Recovered())
    for what, topic, peer in script:
        if what in ("connect", "disconnect"):
            driver.step("on_messages", 99, (Layered(topic, Note(f"{what} {peer}")),))
        elif what == "up":
            driver.up(peer)
        elif what == "down":
            driver.down(peer)
        elif what == "remove" and topic in host.topics:
            host.remove(topic)
            driver.step("on_timer")
            contracts = {key: c for key, c in contracts.items() if key[0] != topic}
        elif what == "add" and topic not in host.topics:
            host.add(topic, topic_probe(topic))
            driver.step("on_timer")
        host.check_invariants()
        # The driver holds a connection exactly while some topic is interested in it, and nobody
        # interested is left without the answer the driver has given.
        interested = {p for (_, p), c in contracts.items() if c.state != "none"}
        assert set(driver.wanted) == interested
        for (_, p), c in contracts.items():
            assert c.state != "asked" or driver.wanted[p] is False


def test_groups_are_joined_once_and_left_last() -> None:
    fx = Effects()
    seven, eight = Probe("7"), Probe("8")
    host = host_with(fx, (7, seven), (8, eight))
    for call in ("join", "leave"):
        for topic, probe in ((7, seven), (8, eight)):
            probe.reactions["messages"] = asks(call, Group(3))
            poke(host, topic, fx)
    assert fx.operations == [Join(Group(3)), Leave(Group(3))]


# -- sharing a link fairly -------------------------------------------------------------------------


def connected_to_five(fx: Effects, reactions: dict[int, Any]) -> tuple[Host, list[Any]]:
    log: list[Any] = []
    topics = [(n, Probe(str(n), log, ready=reaction)) for n, reaction in reactions.items()]
    host = host_with(fx, *topics, (50, Probe("unconnected", log)))
    for number, probe in topics:
        probe.reactions["messages"] = asks("connect", Peer(5))
        poke(host, number, fx)
    host.on_peer_up(0, 5, fx)
    log.clear()
    fx.clear()
    return host, log


def test_interested_topics_take_turns_when_a_link_has_room_again() -> None:
    fx = Effects()
    host, log = connected_to_five(fx, dict.fromkeys((7, 8, 9)))
    for _ in range(3):
        host.on_ready(0, 5, 1000, fx)
    assert [who for who, _, _ in log] == ["7", "8", "9", "8", "9", "7", "9", "7", "8"]
    assert {subject for _, _, subject in log} == {(5, 1000)}


@pytest.mark.parametrize("to", [5, [4, 5]])
def test_who_uses_up_the_room_leaves_the_others_for_next_time(to: int | list[int]) -> None:
    fx = Effects()
    note = Note("x" * 100)
    size = Layered(7, note).wire_size()
    sends = asks("send", to, note, DATA)
    host, log = connected_to_five(fx, {7: sends, 8: asks("send", 6, note), 9: sends})
    host.on_ready(0, 5, 2 * size, fx)
    assert log == [
        ("7", "ready", (5, 2 * size)),
        ("8", "ready", (5, size)),
        ("9", "ready", (5, size)),
    ]
    log.clear()
    host.on_ready(0, 5, size, fx)
    assert [who for who, _, _ in log] == ["8", "9"]
