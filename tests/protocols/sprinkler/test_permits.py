"""Rights are asked for before anything changes; only those who can know are believed."""

from random import Random

from epicast.core import NodeId, Peer, Recovered
from epicast.core.effects import Append, Drop, Notice, Read, SendAfterAppend
from epicast.deployment import Action
from epicast.protocols.reinforcement.messages import ViewExchange
from epicast.protocols.sprinkler import (
    Agent,
    AgentConfig,
    MovableProxy,
    ProxyConfig,
    ProxyPlan,
    RefusalCode,
    Sidecar,
    StreamInfo,
)
from epicast.protocols.sprinkler.messages import (
    Attach,
    Forbidden,
    Notify,
    Poll,
    Published,
    Refused,
    Request,
    StatusReply,
    StatusRequest,
    Subscribe,
    Welcome,
)
from epicast.protocols.sprinkler.moving.messages import (
    AcceptLoss,
    MoveOutcome,
    MoveReply,
    MoveRequest,
)
from epicast.protocols.sprinkler.notices import NotAllowed
from epicast.protocols.sprinkler.plans import RegionFacts
from tests.protocols.single import Single
from tests.protocols.sprinkler.parts import INFO, STREAM, X, Y, Z, agent, counter, publish

ALLOWED, DENIED = 5, 6
SECRET = StreamInfo(STREAM, "s", Y, "y", spreads=False)


class Asked:
    """Allows one node everything, and writes down what it is asked."""

    def __init__(self) -> None:
        self.questions: list[tuple[NodeId, Action, str]] = []

    def __call__(self, node: NodeId, action: Action, info: StreamInfo | None) -> str:
        self.questions.append((node, action, info.name if info is not None else ""))
        return "" if node == ALLOWED else f"node {node} may not {action}"


def guarded(me: int = Y, info: StreamInfo = INFO) -> tuple[Single, Asked]:
    asked = Asked()
    facts = {node: RegionFacts(name, True) for node, name in ((X, "x"), (Y, "y"), (Z, "z"))}
    plan = ProxyPlan("r", (info,), (Peer(X), Peer(Y), Peer(Z)), regions=facts)
    single = Single(
        MovableProxy(
            Peer(me), ProxyConfig(), Random(1), plan=plan, permit=asked, status=lambda: b"{}"
        )
    )
    single.call("on_start", (), Recovered(1))
    for other in {X, Y, Z} - {me}:
        single.up(other)
    for node in (ALLOWED, DENIED):
        single.receive(node, Attach(Peer(node), True))
    return single, asked


def sent(single: Single) -> list[tuple[object, object]]:
    return [(to, message) for to, message, _ in single.fx.sends]


def test_a_publication_without_the_right_is_not_numbered() -> None:
    single, asked = guarded()
    single.receive(DENIED, publish(1))
    [(to, answer)] = sent(single)
    assert to == DENIED and isinstance(answer, Refused)
    assert (answer.code, answer.detail) == (RefusalCode.FORBIDDEN, "node 6 may not publish")
    assert not [op for op in single.fx.operations if isinstance(op, Append)]
    assert asked.questions == [(DENIED, Action.PUBLISH, "s")]
    single.receive(ALLOWED, publish(1))
    [stored] = [op for op in single.fx.operations if isinstance(op, Append)]
    assert stored.batch.first == 1, "no number was spent on what was refused"


def test_a_publication_without_the_right_is_not_relayed() -> None:
    single, _ = guarded(X)
    single.receive(DENIED, publish(1))
    [(to, answer)] = sent(single)
    assert to == DENIED and isinstance(answer, Refused) and answer.code is RefusalCode.FORBIDDEN
    assert single.protocol.statistics()["relayed"] == 0
    single.receive(ALLOWED, publish(1))
    assert [to for to, _ in sent(single)] == [Y]


def test_what_another_proxy_relays_is_believed() -> None:
    single, asked = guarded()
    single.receive(X, publish(1))
    assert [op for op in single.fx.operations if isinstance(op, Append)]
    assert asked.questions == []


def test_a_subscription_or_request_without_the_right() -> None:
    single, _ = guarded()
    single.receive(DENIED, Subscribe(3, STREAM, 0, 0, 1 << 20))
    assert sent(single) == [(DENIED, Forbidden(3, STREAM, "node 6 may not subscribe"))]
    assert single.protocol.statistics()["subscriptions"] == 0
    single.receive(DENIED, Request(STREAM, 1, 1, 5))
    assert sent(single) == []
    assert not [op for op in single.fx.operations if isinstance(op, Read)]
    single.receive(ALLOWED, Subscribe(3, STREAM, 0, 0, 1 << 20))
    assert single.protocol.statistics()["subscriptions"] == 1
    single.receive(Z, Subscribe(4, STREAM, 0, 0, 1 << 20))
    assert single.protocol.statistics()["subscriptions"] == 2, "other proxies get everything"


def test_status_is_a_right() -> None:
    single, _ = guarded()
    single.receive(DENIED, StatusRequest())
    assert sent(single) == [(DENIED, StatusReply(b"", "node 6 may not admin"))]
    single.receive(ALLOWED, StatusRequest())
    assert sent(single) == [(ALLOWED, StatusReply(b"{}"))]


def test_moving_a_stream_is_a_right_to_that_stream() -> None:
    single, asked = guarded()
    for request in (MoveRequest(STREAM, "z", False), MoveRequest(STREAM, "z", True)):
        single.receive(DENIED, request)
        [answer] = [op for op in single.fx.operations if isinstance(op, SendAfterAppend)]
        refused = MoveReply(STREAM, MoveOutcome.REFUSED, "node 6 may not admin")
        assert (answer.to, answer.message) == (DENIED, refused)
        assert asked.questions[-1] == (DENIED, Action.ADMIN, "s")
    single.receive(ALLOWED, MoveRequest(STREAM, "z", False))
    assert [to for to, message in sent(single) if isinstance(message, Poll)] == [[Z]]
    single.receive(DENIED, AcceptLoss(STREAM))
    [answer] = [op for op in single.fx.operations if isinstance(op, SendAfterAppend)]
    assert answer.message == MoveReply(STREAM, MoveOutcome.REFUSED, "node 6 may not admin")


def test_nobody_is_told_of_a_stream_that_does_not_spread() -> None:
    for info, told in ((INFO, True), (SECRET, False)):
        single, _ = guarded(Y, info)
        single.receive(ALLOWED, ViewExchange(Peer(ALLOWED, "h", 1), (), False))
        single.receive(ALLOWED, publish(1))
        single.call("on_appended", STREAM, 1)
        single.call("on_timer")
        notices = [message for _, message in sent(single) if isinstance(message, Notify)]
        assert bool(notices) == told


def test_an_acknowledgement_is_believed_only_of_who_was_asked() -> None:
    """Or anybody could have a publisher believe that something is stored."""
    forged = Published(STREAM, 99, (ALLOWED,), ((1, 1),))
    refusal = Refused(STREAM, 99, (ALLOWED,), 1, 1, RefusalCode.INVALID, "forged")
    single, _ = guarded(X)
    for message in (forged, refusal):
        single.receive(DENIED, message)
        assert sent(single) == []
        assert [op.reason for op in single.fx.operations if isinstance(op, Drop)] == [
            f"{type(message).__name__} from a peer that may not send it"
        ]
    single.receive(Y, forged)
    assert [to for to, _ in sent(single)] == [ALLOWED]
    edge = agent()
    edge.receive(DENIED, Published(STREAM, 99, (), ((1, 1),)))
    assert [op.reason for op in edge.fx.operations if isinstance(op, Drop)] == [
        "Published from a peer that may not send it"
    ]


def secret_welcome(single: Single, seq: int, info: StreamInfo = SECRET) -> None:
    single.receive(Y, Welcome("r", Peer(Y), (info,), (counter(seq),), 500_000_000))


def test_an_agent_neither_follows_nor_serves_what_does_not_spread() -> None:
    single = Single(Agent(Peer(1), AgentConfig(follow_all=True), Random(1)))
    single.start(Y)
    single.up(Y)
    secret_welcome(single, 3)
    single.protocol.subscribe(1, STREAM, 0, 3, 1 << 20)
    single.call("on_timer")
    assert [to for to, message in sent(single) if isinstance(message, Subscribe)] == [Y]
    assert single.protocol.statistics()["followed"] == 0
    single.receive(2, Request(STREAM, 1, 1, 3))
    assert sent(single) == []
    single.receive(Y, Forbidden(1, STREAM, "no right"))
    assert [op.value for op in single.fx.operations if isinstance(op, Notice)] == [
        NotAllowed(STREAM, "no right")
    ]


def test_an_agent_gives_up_a_stream_that_spreads_no_longer() -> None:
    single = agent(seq=3)
    assert single.protocol.statistics()["followed"] == 1
    secret_welcome(single, 3)
    assert [to for to, message in sent(single) if isinstance(message, Subscribe)] == [Y]
    assert single.protocol.statistics()["followed"] == 0
    single.receive(2, Request(STREAM, 1, 1, 3))
    assert sent(single) == []


def test_a_sidecar_asks_about_its_clients() -> None:
    asked = Asked()
    single = Single(Sidecar(Peer(1), AgentConfig(follow_all=True), Random(1), permit=asked))
    single.start(Y)
    single.up(Y)
    secret_welcome(single, 0)
    for node in (ALLOWED, DENIED):
        single.receive(node, Attach(Peer(node), False))
    single.receive(DENIED, publish(1))
    [(to, answer)] = sent(single)
    assert to == DENIED and isinstance(answer, Refused) and answer.code is RefusalCode.FORBIDDEN
    single.receive(DENIED, Subscribe(3, STREAM, 0, 0, 1 << 20))
    assert sent(single) == [(DENIED, Forbidden(3, STREAM, "node 6 may not subscribe"))]
    single.receive(ALLOWED, publish(1))
    assert [to for to, _ in sent(single)] == [Y]
    single.receive(ALLOWED, Subscribe(3, STREAM, 0, 0, 1 << 20))
    single.call("on_timer")
    assert single.protocol.statistics()["subscriptions"] == 1
    # A client that says it is somebody else, to have the sidecar connect there.
    single.receive(ALLOWED, Attach(Peer(77, "elsewhere", 1), False))
    assert sent(single) == []
