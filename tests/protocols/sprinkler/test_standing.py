"""Which peers may send which messages to each kind of node; any other message is only counted."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from epicast.core import COORDINATION_ID, Message, NodeId, Peer
from epicast.protocols.reinforcement.messages import MOST_PEERS, ViewExchange
from epicast.protocols.sprinkler import (
    Agent,
    AgentConfig,
    Client,
    ClientConfig,
    MovableProxy,
    Proxy,
    ProxyConfig,
    ProxyPlan,
    ReplicaProxy,
    Sidecar,
)
from epicast.protocols.sprinkler.messages import (
    Answer,
    Attach,
    Events,
    Notify,
    Request,
    StatusReply,
    StatusRequest,
    Tail,
)
from epicast.protocols.sprinkler.standing import (
    AGENT,
    CLIENT,
    COORDINATION,
    PROXY,
    REPLICA,
    STRANGER,
)
from tests.compatibility.recording import sample
from tests.protocols.single import Single
from tests.protocols.sprinkler.parts import (
    INFO,
    STREAM,
    X,
    Y,
    Z,
    counter,
    events,
    proxy,
    welcome,
)
from tests.protocols.sprinkler.test_hostile_messages import replica, through_the_codec

LISTENING, READER, NOBODY, OTHER = 5, 6, 7, 8


def is_agent(peer: NodeId) -> bool:
    return peer == LISTENING


def a_proxy() -> tuple[Single, dict[int, NodeId]]:
    plan = ProxyPlan("y", (INFO,), (Peer(X), Peer(Y), Peer(Z)))
    single = Single(MovableProxy(Peer(Y), ProxyConfig(), Random(1), plan=plan, is_agent=is_agent))
    single.start()
    for other in (X, Z):
        single.up(other)
    for peer in (LISTENING, READER):
        single.receive(peer, Attach(Peer(peer), True))
    return single, {STRANGER: NOBODY, CLIENT: READER, AGENT: LISTENING, PROXY: X}


def a_replica() -> tuple[Single, dict[int, NodeId]]:
    single = replica(1)
    single.receive(READER, Attach(Peer(READER), False))
    single.receive(LISTENING, Attach(Peer(LISTENING), True))
    parts = {STRANGER: NOBODY, CLIENT: READER, AGENT: LISTENING, PROXY: X}
    return single, {**parts, REPLICA: 2, COORDINATION: COORDINATION_ID}


def a_sidecar(**settings: Any) -> tuple[Single, dict[int, NodeId]]:
    single = Single(
        Sidecar(Peer(1), AgentConfig(follow_all=True), Random(1), is_agent=is_agent, **settings)
    )
    single.start(Y, OTHER)
    single.up(Y)
    welcome(single, Y, 3)
    single.receive(READER, Attach(Peer(READER), True))
    return single, {
        STRANGER: NOBODY, CLIENT: READER, AGENT: LISTENING, PROXY: Y, REPLICA: OTHER
    }  # fmt: skip


def an_agent() -> tuple[Single, dict[int, NodeId]]:
    single = Single(Agent(Peer(1), AgentConfig(follow_all=True), Random(1), is_agent=is_agent))
    single.start(Y, OTHER)
    single.up(Y)
    welcome(single, Y, 3)
    return single, {STRANGER: NOBODY, AGENT: LISTENING, PROXY: Y, REPLICA: OTHER}


def a_client() -> tuple[Single, dict[int, NodeId]]:
    single = Single(Client(Peer(1), ClientConfig(), Random(1)))
    single.start(Y, OTHER)
    single.up(Y)
    welcome(single, Y, 3)
    return single, {STRANGER: NOBODY, PROXY: Y, REPLICA: OTHER}


NODES = {
    "proxy": a_proxy, "replica": a_replica, "sidecar": a_sidecar, "agent": an_agent,
    "client": a_client,
}  # fmt: skip


@pytest.mark.parametrize("kind", [Proxy, MovableProxy, ReplicaProxy, Agent, Sidecar, Client])
def test_whatever_is_handled_has_a_rule(kind: type[Any]) -> None:
    """A message type without a rule would always be dropped."""
    assert not {each.__name__ for each in kind._handlers.keys() - kind.may_say.keys()}


@pytest.mark.parametrize("node", NODES)
def test_what_may_not_be_said_has_no_effect_but_a_counter(node: str) -> None:
    single, parts = NODES[node]()
    protocol: Any = single.protocol
    before = dict(protocol.statistics()), dict(protocol.timers._deadlines)
    forbidden = 0
    for kind in protocol._handlers:
        for part, source in parts.items():
            assert protocol._part_of(source) == part
            if protocol.may_say[kind] & part:
                continue
            forbidden += 1
            single.receive(source, sample(kind))
            assert single.drops() == [f"{kind.__name__} from a peer that may not send it"]
            assert single.sends == [] and len(single.fx.operations) == 1
            assert (dict(protocol.statistics()), dict(protocol.timers._deadlines)) == before
    assert forbidden > len(protocol._handlers) / 2


def test_only_views_travel_as_datagrams() -> None:
    """The sender of a datagram can claim to be any node, the proxy as well."""
    rules = (MovableProxy.may_say, ReplicaProxy.may_say, Sidecar.may_say, Client.may_say)
    assert {kind for table in rules for kind in table if kind.datagrams} == {ViewExchange}


# -- one reader does not speak for the owner -------------------------------------------------------


@pytest.mark.parametrize("source", [READER, NOBODY])
def test_a_client_of_a_sidecar_numbers_no_events(source: NodeId) -> None:
    single, _ = a_sidecar()
    forged = events(4)
    rest = (counter(4), 4, 4, (forged,))
    buried = forged.build(STREAM, 4, [], seqs=[], last=2**62, epoch=1)
    for message in (
        Notify((counter(4),), (forged,)), Notify((), (buried,)), Notify((counter(2**62),), ()),
        Answer(*rest), Tail((forged,)), Events(1, (forged,)),
    ):  # fmt: skip
        single.receive(source, message)
        assert single.sends == []
    assert single.protocol.progress()["s"] == counter(3)
    single.receive(Y, Tail((events(4),)))
    assert single.protocol.progress()["s"] == counter(4), "it has not gone deaf"


def test_what_an_agent_tells_is_believed() -> None:
    single, _ = a_sidecar()
    single.receive(LISTENING, Notify((counter(4),), (events(4),)))
    assert single.protocol.progress()["s"] == counter(4)


def asked(seq: int = 9) -> Single:
    """An agent that has asked a neighbour for everything up to a number."""
    single, _ = an_agent()
    single.receive(LISTENING, Notify((counter(seq),), ()))
    assert single.sent(Request) == [(LISTENING, Request(STREAM, 1, 4, seq))]
    return single


@pytest.mark.parametrize(
    ("source", "first", "last", "batch"),
    [(Y, 4, 9, events(4, 6)), (LISTENING, 4, 10, events(4, 7)), (LISTENING, 1, 9, events(4, 6)),
     (LISTENING, 4, 9, events(4, 7)), (LISTENING, 5, 3, events(4)), (LISTENING, 20, 29, events(4))],
)  # fmt: skip
def test_an_answer_is_taken_of_whom_was_asked_and_for_what_was(
    source: NodeId, first: int, last: int, batch: Any
) -> None:
    single = asked()
    single.receive(source, Answer(counter(9), first, last, (batch,)))
    assert single.protocol.statistics()["received"] == 0
    single = asked()
    single.receive(LISTENING, Answer(counter(9), 4, 7, (events(4, 4),)))
    assert single.protocol.statistics()["received"] == 1
    assert single.sent(Request) == [(LISTENING, Request(STREAM, 1, 8, 9))]


def test_a_late_answer_is_one() -> None:
    single = asked()
    single.wait(10_000_000_000)
    single.receive(LISTENING, Answer(counter(9), 4, 9, (events(4, 6),)))
    assert single.protocol.statistics()["received"] == 1


# -- views -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [READER, NOBODY, X])
def test_a_proxy_exchanges_views_with_agents_only(source: NodeId) -> None:
    single, _ = a_proxy()
    addresses = tuple(Peer(1000 + n, "victim", 80) for n in range(19))
    for wants_answer in (True, False):
        single.receive(source, ViewExchange(Peer(source, "victim", 80), addresses, wants_answer))
        assert single.sends == [] and single.known() == [] and single.connects() == []
    assert single.protocol.neighbors() == []
    single.fire("gossip")
    assert single.sent(ViewExchange) == []
    single.receive(LISTENING, ViewExchange(Peer(LISTENING, "h", 80), (), True))
    assert single.protocol.neighbors() == [LISTENING]
    assert [to for to, _ in single.sent(ViewExchange)] == [LISTENING]


def test_a_client_that_does_not_listen_is_no_agent() -> None:
    single = proxy(Y)
    single.receive(READER, Attach(Peer(READER), False))
    single.receive(READER, ViewExchange(Peer(READER, "h", 80), (), True))
    assert single.sends == [] and single.protocol.neighbors() == []


def test_views_and_names_have_a_bound() -> None:
    def arrives(message: Message) -> bool:
        return through_the_codec(message) is not None

    long, most = "h" * 200, tuple(Peer(n) for n in range(1, MOST_PEERS + 1))
    assert arrives(ViewExchange(Peer(1, long), most, True))
    assert not arrives(ViewExchange(Peer(1, long + "h"), (), True))
    assert not arrives(ViewExchange(Peer(1), (Peer(2, "h" * (5 << 20)),), True))
    assert not arrives(ViewExchange(Peer(1), (*most, Peer(MOST_PEERS + 1)), True))


# -- operators -------------------------------------------------------------------------------------


def test_the_status_of_a_sidecar_is_for_operators() -> None:
    def permit(peer: NodeId, action: Any, info: Any) -> str:
        assert info is None
        return "" if peer == LISTENING else f"node {peer} may not {action}"

    single, _ = a_sidecar(permit=permit, status=lambda: b"{}")
    single.receive(READER, StatusRequest())
    assert single.sends == [(READER, StatusReply(b"", f"node {READER} may not admin"))]
    single.receive(LISTENING, StatusRequest())
    assert single.sends == [(LISTENING, StatusReply(b"{}"))]
