"""A message that makes no sense does not end the node that gets it, nor one that gets the answer.

All messages go through the codec, as they do between nodes.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from epicast.core import (
    COORDINATION_ID,
    BodyCodec,
    EventBatch,
    EventKind,
    Message,
    Peer,
    Recovered,
    Run,
    WireError,
)
from epicast.core.ranges import MAX_SEQ
from epicast.geo.admission import Admission
from epicast.log import GcPolicy, gc_payload, parse
from epicast.log.recent import FilteredBuffer
from epicast.protocols.coordination import View, ViewEntry
from epicast.protocols.reinforcement.messages import ViewExchange
from epicast.protocols.sprinkler import (
    AgentConfig,
    AlarmKind,
    ChainPlan,
    Proxy,
    ProxyConfig,
    ProxyPlan,
    RefusalCode,
    ReplicaProxy,
    Sidecar,
)
from epicast.protocols.sprinkler.chain.configuration import ChainConfig, Member, encode_config
from epicast.protocols.sprinkler.chain.messages import Linked, Place
from epicast.protocols.sprinkler.messages import (
    Advertisement,
    Attach,
    Events,
    Notify,
    Poll,
    Publish,
    Refused,
    Restart,
    StreamInfo,
    Subscribe,
    Tail,
    Welcome,
)
from epicast.protocols.sprinkler.moving.messages import Ownerships
from epicast.protocols.sprinkler.moving.tenure import Tenure
from tests.protocols.single import Single
from tests.protocols.sprinkler.parts import (
    INFO,
    STREAM,
    X,
    Y,
    Z,
    agent,
    appended,
    attach,
    counter,
    events,
    numbers,
    proxy,
    publish,
    welcome,
)

CLIENT = 77
LAST = 2**64 - 1
TWO = events(1, 2)


def through_the_codec(message: Message) -> Message | None:
    """As it arrives, if it does."""
    codec = BodyCodec()
    buffers = codec.encode(message)
    body = b"".join(buffers)
    try:
        return codec.decode(type(message), memoryview(body), len(buffers[0]))
    except WireError:
        return None


def receive(single: Single, source: int, message: Message) -> bool:
    """Whether it arrived. All that is sent because of it must arrive, too."""
    arrived = through_the_codec(message)
    if arrived is not None:
        single.receive(source, arrived)
        assert_sendable(single)
    return arrived is not None


def assert_sendable(single: Single) -> None:
    for _, message in single.sends:
        assert through_the_codec(message) is not None, message


def sidecar(**settings: Any) -> Single:
    single = Single(
        Sidecar(
            Peer(1), AgentConfig(follow_all=True, **settings), Random(1),
            make_buffer=lambda info: FilteredBuffer(info.id, 1 << 20),
        )
    )  # fmt: skip
    single.start(Y)
    single.up(Y)
    welcome(single, Y, 0)
    single.receive(CLIENT, Attach(Peer(CLIENT), False))
    return single


def replica(me: int = 2, *, admit: Admission | None = None) -> Single:
    """The second of two; the first is linked and sends what follows."""
    replicas = (Peer(1), Peer(2))
    plan = ProxyPlan("r", (INFO,), (Peer(X),), region_id=Y, replicas=replicas)
    single = Single(
        ReplicaProxy(
            Peer(me), ProxyConfig(), Random(1), plan=plan, chain=ChainPlan("k", replicas),
            admit=admit,
        )
    )  # fmt: skip
    single.call("on_start", (), Recovered(5))
    for other in {1, 2, X} - {me}:
        single.up(other)
    chain = ChainConfig(3, (Member(1, 5), Member(2, 5)))
    single.receive(COORDINATION_ID, View("k", 1, (ViewEntry("k", encode_config(chain), 1),)))
    if me == 2:
        single.receive(1, Linked(3, (Place(STREAM, 1, 0, ((3, 1),)),)))
    return single


def owner() -> Single:
    single = proxy(Y)
    attach(single, CLIENT)
    return single


def elsewhere() -> Single:
    single = proxy(X)
    attach(single, CLIENT)
    return single


NODES = {"owner": owner, "elsewhere": elsewhere, "sidecar": sidecar, "replica": replica}
PUBLICATIONS = {
    "last number": Publish(STREAM, 99, LAST, LAST - 1, "", (), TWO),
    "unknown stream": Publish(12345, 99, LAST, LAST - 1, "", (), TWO),
    "batch": Publish(STREAM, 99, LAST // 2, 0, "", (), TWO.renumbered(STREAM, 0, LAST - 5, 0, ())),
    "answered": Publish(STREAM, 99, 1, LAST, "", (), TWO),
    "publisher": Publish(STREAM, -1, 1, 0, "", (), TWO),
    "far": Publish(STREAM, 99, MAX_SEQ, MAX_SEQ, "", (), TWO),
    "digits": Publish(STREAM, 99, 1, 0, "regions=" + "9" * 5000, (), TWO),
}


@pytest.mark.parametrize("what", PUBLICATIONS)
@pytest.mark.parametrize("node", NODES)
def test_a_publication_ends_no_node(node: str, what: str) -> None:
    single = NODES[node]()
    for source in (CLIENT, X, Z, 1):
        receive(single, source, PUBLICATIONS[what])
        for batch in appended(single):
            assert EventBatch.decode(b"".join(batch.encode())) == batch
            single.call("on_appended", batch.stream, batch.last)
            assert_sendable(single)
    receive(single, CLIENT, Publish(STREAM, 98, 1, 0, "", (), TWO))
    assert single.sends or appended(single), "it goes on"


def test_a_level_of_thousands_of_digits_is_none_there_is() -> None:
    single = owner()
    assert receive(single, CLIENT, PUBLICATIONS["digits"])
    [(to, refused)] = single.sent(Refused)
    assert to == CLIENT and refused.code is RefusalCode.LEVEL and len(refused.detail) < 200


def test_the_last_number_a_publication_may_have() -> None:
    single = owner()
    assert receive(single, CLIENT, PUBLICATIONS["far"])
    [batch] = appended(single)
    assert batch.runs == (Run(99, MAX_SEQ, 2),)
    assert EventBatch.decode(b"".join(batch.encode())) == batch, "others can read it"


@pytest.mark.parametrize("window", [2**63 - 1, MAX_SEQ, 2**40, -5])
@pytest.mark.parametrize("node", ["sidecar", "owner", "elsewhere"])
def test_a_window_takes_no_memory(node: str, window: int) -> None:
    single = NODES[node]()
    if node == "sidecar":
        welcome(single, Y, 0)
        single.receive(Y, Tail((events(1, 5, size=100),)))
    else:
        single.receive(Y if node == "elsewhere" else CLIENT, publish(1, 5))
    receive(single, CLIENT, Subscribe(1, STREAM, 0, 0, window))
    single.call("on_timer")
    protocol: Any = single.protocol
    if node == "sidecar":
        windows = [each.window for each in protocol._subscriptions.values()]
        assert all(1 <= each <= 64 << 20 for each in windows)


def test_events_that_are_at_hand_take_no_more_memory_than_they_are() -> None:
    """A reader may ask for any number of bytes."""
    buffer = FilteredBuffer(STREAM, 1 << 20)
    buffer.add(events(1, 5))
    assert numbers(buffer.read(1, 5, 2**62)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", [Tail, lambda batches: Events(1, batches)])
@pytest.mark.parametrize("node", NODES)
def test_events_of_a_stream_that_nobody_knows(node: str, kind: Any) -> None:
    single = NODES[node]()
    for source in (1, X, Y, CLIENT):
        assert receive(single, source, kind((events(1, stream=4711),)))
        assert appended(single) == []


def test_a_stream_that_is_not_spread_any_more_is_told_to_nobody() -> None:
    single = agent()
    single.receive(5, ViewExchange(Peer(5), (), False))
    single.receive(Y, Tail((events(1),)))
    single.receive(
        Y, Welcome("r", Peer(Y), (StreamInfo(STREAM, "s", Y, "y", spreads=False),), (), 500)
    )
    single.wait(1)
    assert single.sent(Notify) == []


@pytest.mark.parametrize(
    "message",
    [
        Restart(1, STREAM, 2**32, 5),
        Advertisement((counter(5, epoch=2**32),)),
        Advertisement((counter(-5),)),
        Ownerships((Tenure(STREAM, LAST, X, 2, 1, 0, taken=True),)),
        Tail((EventBatch.build(STREAM, 1, [b""], epoch=1).renumbered(STREAM, 1, LAST, 0, ()),)),
        Poll(-1),
        Attach(Peer(CLIENT, "h" * 201), True),
        Attach(Peer(-1), True),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_no_node_has_reason_to_say_reaches_nobody(message: Message) -> None:
    assert through_the_codec(message) is None


BAD_GC = EventBatch.build(STREAM, 2, [b"\xff" * 9], kinds=[EventKind.GC], epoch=1)
BAD = {
    "a predicate": BAD_GC,
    "a kind": EventBatch.build(STREAM, 2, [b""], kinds=[9], epoch=1),
    "a key": EventBatch.build(STREAM, 2, [b""], keys=[b"k" * 2000], epoch=1),
    "in a new epoch": EventBatch.build(STREAM, 1, [b"\xff"], kinds=[EventKind.GC], epoch=2),
}
ADMISSION = Admission({STREAM: GcPolicy()})


def follower() -> Single:
    plan = ProxyPlan("z", (INFO,), (Peer(X), Peer(Y), Peer(Z)))
    single = Single(Proxy(Peer(Z), ProxyConfig(), Random(1), plan=plan, admit=ADMISSION))
    single.call("on_start", (), Recovered(1))
    for other in (X, Y):
        single.up(other)
    return single


@pytest.mark.parametrize("what", BAD)
def test_events_that_no_history_stores_are_had_from_somebody_else(what: str) -> None:
    single = follower()
    single.receive(X, Advertisement((counter(2),)))
    assert [to for to, _ in single.sent(Subscribe)] == [X]
    single.receive(X, Tail((events(1),)))
    single.call("on_appended", STREAM, 1)
    single.receive(X, Tail((BAD[what],)))
    assert appended(single) == [] and "events no history can store" in single.drops()
    single.now += 10_000_000_000
    assert [alarm.kind for alarm in single.protocol.alarms(single.now)].count(AlarmKind.STORAGE)
    single.now -= 10_000_000_000
    single.receive(X, Advertisement((counter(2),)))
    assert single.sent(Subscribe) == [], "X is not asked again at once"
    single.receive(Y, Advertisement((counter(2),)))
    [(to, asked)] = single.sent(Subscribe)
    assert (to, asked.epoch, asked.after) == (Y, 1, 1), "nothing of it was taken"
    single.receive(Y, Tail((events(2),)))
    assert numbers(appended(single)) == [2]
    single.call("on_appended", STREAM, 2)
    single.now += 10_000_000_000
    assert AlarmKind.STORAGE not in [alarm.kind for alarm in single.protocol.alarms(single.now)]


def test_events_that_a_policy_of_today_would_refuse_are_stored() -> None:
    """The policy may have been another one when they were published."""
    latest = Admission({STREAM: GcPolicy(latest_per_key=True)})
    gc = EventBatch.build(STREAM, 1, [gc_payload(parse("size < 5"))], kinds=[EventKind.GC])
    assert latest(INFO, gc) and not latest.storable(INFO, gc)


def test_a_replica_asks_again_and_does_not_call_itself_ill() -> None:
    single = replica(admit=ADMISSION)
    single.receive(1, Tail((events(1),)))
    assert numbers(appended(single)) == [1]
    single.call("on_appended", STREAM, 1)
    single.receive(1, Tail((BAD_GC,)))
    assert appended(single) == [] and "events no history can store" in single.drops()
    assert single.sends == [], "it is not asked for in a circle"
    protocol: Any = single.protocol
    assert not protocol._keeper.ailing
    single.fire("beat")
    assert [type(message).__name__ for _, message in single.sends].count("Link") == 1
