"""The guard of a topic, without a network: what goes out to whom, and what is taken."""

from collections.abc import Sequence
from random import Random

import pytest

from epicast.client.topics.guard import (
    MAX_STRANGERS,
    MAX_WAITING,
    PAUSE_NS,
    GuardedTopic,
    without_own,
)
from epicast.core import DATA, AnyMessage, Effects, EventBatch, NodeId, Peer, Protocol, Recovered
from epicast.core.effects import Connect, Disconnect, Drop
from epicast.core.host import Host, HostConfig
from epicast.core.message import Layered
from epicast.deployment import parse_geoplex
from epicast.protocols.epto.entries import columns_of
from epicast.protocols.epto.messages import Ball
from epicast.protocols.lpbcast.messages import (
    Announcement,
    EventRange,
    Gossip,
    Notification,
    Retrieved,
    SourceDigest,
)
from epicast.runtime.gate import Rights
from tests.unit.wire.samples import Fields

TEXT = """
name = "g"
[regions.us]
proxy = "127.0.0.1:7400"
[security]
ca = "ca.pem"
[security.identities.member]
certificate = "member"
[security.identities.reader]
certificate = "reader"
[security.identities.other]
certificate = "other"
[[security.rights]]
identities = ["member"]
topics = ["chat"]
allow = ["publish", "subscribe"]
[[security.rights]]
identities = ["reader"]
topics = ["chat"]
allow = ["subscribe"]
"""
TOPIC = 5
MEMBER, READER, OTHER, UNKNOWN = 11, 12, 13, 14
WORD = Fields(1, "", b"")


class Inner(Protocol[None]):
    def __init__(self) -> None:
        super().__init__(Peer(1), None, Random(1))
        self.targets: Sequence[NodeId] | NodeId = ()
        self.heard: list[tuple[NodeId, AnyMessage]] = []

    def on_timer(self, now: int, fx: Effects) -> None:
        fx.send(self.targets, WORD, DATA)

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None:
        self.heard += [(source, message) for message in messages]


class World:
    def __init__(self) -> None:
        self.identities = {MEMBER: "member", READER: "reader", OTHER: "other"}
        access = parse_geoplex(TEXT, "g.toml").access()
        assert access is not None
        self.inner = Inner()
        self.guarded = GuardedTopic(self.inner, "chat", Rights(access, self.identities.get))
        self.host = Host(Peer(1), HostConfig(), Random(1))
        self.fx = Effects()
        self.host.add(TOPIC, self.guarded)
        self.host.on_start(0, (), Recovered(), self.fx)
        self.fx.clear()

    def send(self, *targets: NodeId, now: int = 1) -> None:
        self.inner.targets = targets
        self.inner.timers.set("now", now)
        self.host.on_timer(now, self.fx)

    def sent(self) -> list[object]:
        return [(list(to), message, channel) for to, message, channel in self.fx.sends]  # type: ignore[arg-type]

    def operations(self, kind: type) -> list[NodeId]:
        found = [each for each in self.fx.operations if isinstance(each, kind)]
        return [each.peer.id if isinstance(each, Connect) else each.peer for each in found]  # type: ignore[attr-defined]


@pytest.fixture
def world() -> World:
    return World()


def test_only_members_are_sent_to(world: World) -> None:
    world.send(MEMBER, OTHER, READER)
    assert world.sent() == [([MEMBER, READER], Layered(TOPIC, WORD), DATA)]
    assert world.operations(Drop) == [OTHER]
    assert not world.operations(Connect)


def test_nothing_is_sent_before_it_is_known_who_that_is(world: World) -> None:
    world.send(UNKNOWN)
    world.send(UNKNOWN)
    assert not world.fx.sends and world.operations(Connect) == [UNKNOWN]
    world.fx.clear()
    world.identities[UNKNOWN] = "member"
    world.host.on_peer_up(2, UNKNOWN, world.fx)
    assert world.sent() == 2 * [([UNKNOWN], Layered(TOPIC, WORD), DATA)]
    assert world.operations(Disconnect) == [UNKNOWN], "idle connections may be closed"


def test_who_turns_out_to_be_no_member_gets_nothing(world: World) -> None:
    world.send(UNKNOWN)
    world.fx.clear()
    world.identities[UNKNOWN] = "other"
    world.host.on_peer_up(2, UNKNOWN, world.fx)
    assert not world.fx.sends and world.operations(Drop) == [UNKNOWN]


def test_who_cannot_be_reached_is_tried_again_later(world: World) -> None:
    world.send(UNKNOWN)
    world.host.on_peer_down(10, UNKNOWN, world.fx)
    world.fx.clear()
    world.send(UNKNOWN, now=11)
    assert not world.operations(Connect) and world.operations(Drop) == [UNKNOWN]
    world.send(UNKNOWN, now=10 + PAUSE_NS)
    assert world.operations(Connect) == [UNKNOWN]


def test_what_waits_is_bounded(world: World) -> None:
    for _ in range(MAX_WAITING + 3):
        world.send(UNKNOWN)
    assert len(world.operations(Drop)) == 3
    world.fx.clear()
    for peer in range(100, 100 + MAX_STRANGERS):
        world.send(peer)
    assert len(world.operations(Connect)) == MAX_STRANGERS - 1
    assert len(world.operations(Drop)) == 1


def test_sends_go_out_before_room_is_asked_for(world: World) -> None:
    """Protocols ask how much room a peer has left after what they have sent it."""
    seen: list[int] = []

    def on_timer(now: int, fx: Effects) -> None:
        fx.send(MEMBER, WORD, DATA)
        seen.append(fx.room(MEMBER))

    world.inner.on_timer = on_timer  # type: ignore[method-assign]
    world.fx.room = lambda _: len(world.fx.sends)
    world.send()
    assert seen == [1]


def test_only_members_are_heard(world: World) -> None:
    for source in (MEMBER, READER, OTHER, UNKNOWN):
        world.host.on_messages(1, source, [Layered(TOPIC, WORD)], world.fx)
    assert world.inner.heard == [(MEMBER, WORD), (READER, WORD)]
    assert world.operations(Drop) == [OTHER, UNKNOWN]


def gossip(*sources: int) -> Gossip:
    return Gossip(
        events=tuple(Notification(0, EventBatch.build(each, 1, [b"x"])) for each in sources),
        announced=tuple(Announcement(0, EventRange(each, 2, 2)) for each in sources),
        digest=tuple(SourceDigest(each, 2) for each in sources),
    )


def sources_of(message: object) -> set[int]:
    assert isinstance(message, Gossip)
    return (
        {each.batch.stream for each in message.events}
        | {each.events.source for each in message.announced}
        | {each.source for each in message.digest}
    )


def test_what_a_reader_publishes_is_dropped_and_what_it_passes_on_is_not(world: World) -> None:
    for source in (READER, MEMBER):
        world.host.on_messages(1, source, [Layered(TOPIC, gossip(READER, MEMBER, OTHER))], world.fx)
    heard = [(source, sources_of(message)) for source, message in world.inner.heard]
    assert heard == [(READER, {MEMBER, OTHER}), (MEMBER, {READER, MEMBER, OTHER})]
    dropped = [each for each in world.fx.operations if isinstance(each, Drop)]
    assert [(each.reason, each.peer) for each in dropped] == [
        ("published without the right", READER)
    ]


def ball(source: int, published: int = 0) -> Layered:
    columns = columns_of(7, source, EventBatch.build(source, 1, [b"x"]))
    return Layered(1, Ball(1, columns, 0, published, 0, 0, 0, b"", 0))


def test_balls_of_readers() -> None:
    large = 2**64 - 5
    assert without_own(ball(MEMBER), READER) is not None
    assert without_own(ball(READER), READER) is None
    assert without_own(ball(large), large) is None
    assert without_own(ball(MEMBER, published=3), READER) is None, "it would be waited for"
    broken = Ball(1000, b"short", 0, 0, 0, 0, 0, b"", 0)
    assert without_own(broken, READER) is broken, "the protocol says what is wrong with it"
    events = (Notification(0, EventBatch.build(READER, 1, [b"x"])),)
    assert without_own(Retrieved(events), READER) == Retrieved(())
    assert without_own(Retrieved(events), MEMBER) == Retrieved(events)
