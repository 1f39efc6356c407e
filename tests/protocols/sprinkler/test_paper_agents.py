"""Section 3.2 of the paper and Figure 3: inside a region."""

from collections import Counter as Tally

from epicast.core import Peer, TopicDelivery
from epicast.protocols.reinforcement.messages import ViewExchange
from epicast.protocols.sprinkler import AgentConfig, ProxyConfig
from epicast.protocols.sprinkler.messages import (
    Advertisement,
    Answer,
    Notify,
    Request,
    Subscribe,
    Tail,
    Unsubscribe,
)
from tests.protocols.harness import MS, SECOND
from tests.protocols.sprinkler.parts import (
    STREAM,
    X,
    Y,
    agent,
    counter,
    events,
    proxy,
)
from tests.protocols.sprinkler.world import World

REGION = """
name = "region"
[regions.y]
proxy = "y:1"
[streams.s]
owner = "y"
"""


def region(agents: int, **settings: object) -> World:
    settings = {"view_size": 6, "fanout": 2, "gossip_every_ns": 200 * MS, **settings}
    shared = ("view_size", "fanout", "gossip_every_ns")
    world = World(
        REGION, 1, agent=AgentConfig(**settings),
        proxy=ProxyConfig(**{name: settings[name] for name in shared}),
    )  # fmt: skip
    for at in range(agents):
        world.agent("y", f"a{at}").subscribe(1, "s", 1 << 20)
    return world


def neighbours(world: World) -> dict[int, set[int]]:
    nodes = world.simulation.live_nodes()
    proxy_id = world.geo.proxies["y"].id
    return {n.id: set(n.protocol.neighbors()) for n in nodes if n.id == proxy_id or
            n.id in world.applications}  # fmt: skip


def is_connected(graph: dict[int, set[int]]) -> bool:
    """Whoever knows somebody can be known by it a moment later: direction does not matter."""
    ties: dict[int, set[int]] = {node: set() for node in graph}
    for node, view in graph.items():
        for peer in view & set(graph):
            ties[node].add(peer)
            ties[peer].add(node)
    start = min(graph)
    seen, todo = {start}, [start]
    while todo:
        new = ties[todo.pop()] - seen
        seen |= new
        todo += sorted(new)
    return seen == set(graph)


# -- data dissemination -----------------------------------------------------------------------


def test_receive_notify_asks_who_told_for_what_was_not_asked_for_yet():
    us = agent()
    us.receive(5, Notify((counter(10),), ()))
    assert us.sends == [(5, Request(STREAM, 1, 1, 10))]
    us.receive(6, Notify((counter(12),), ()))
    assert us.sends == [(6, Request(STREAM, 1, 11, 12))]
    us.receive(7, Notify((counter(12),), ()))
    assert us.sends == []


def test_deliver_event_waits_for_what_comes_before():
    us = agent()
    us.receive(5, Notify((counter(4),), ()))
    us.receive(5, Answer(counter(4), 3, 4, (events(3, 2),)))
    assert not us.fx.operations
    us.receive(5, Answer(counter(4), 1, 2, (events(1, 2),)))
    assert [op.batch.first for op in us.fx.operations if hasattr(op, "batch")] == [1, 3]


def test_receive_request_answers_with_what_is_there_and_how_far_it_is():
    us = agent(seq=10)
    us.receive(5, Notify((counter(12),), (events(11, 2),)))
    us.receive(6, Request(STREAM, 1, 5, 12))
    [(to, answer)] = us.sent(Answer)
    assert (to, answer.counter, answer.first, answer.last) == (6, counter(12), 5, 12)
    assert [(b.first, b.last) for b in answer.batches] == [(11, 12)]  # 5 to 10 is a hole


def test_the_proxy_is_not_asked_as_soon_as_something_is_outstanding():
    """Printed: `requestFromProxy` is enabled by cnt < next - 1, that is, by any request."""
    us = agent()
    us.receive(5, Notify((counter(10),), ()))
    us.wait(200 * MS)
    assert us.sent(Request) == []


def test_the_proxy_is_asked_on_a_timeout():
    us = agent()
    us.receive(5, Notify((counter(10),), ()))
    us.fire("overdue")
    assert us.sent(Request) == [(Y, Request(STREAM, 1, 1, 10))]


def test_the_proxy_is_asked_for_the_holes_of_an_answer():
    us = agent()
    us.receive(5, Notify((counter(10),), ()))
    us.receive(5, Answer(counter(10), 1, 10, (events(7, 4),)))
    assert us.sent(Request) == [(Y, Request(STREAM, 1, 1, 6))]


def test_the_proxy_serves_streams_it_does_not_own():
    """Printed: `requestFromProxy` requires s in p.streams."""
    us = proxy(X)
    us.receive(Y, Advertisement((counter(3),)))
    us.receive(Y, Notify((), ()))
    us.call("on_messages", 5, (Request(STREAM, 0, 1, 3),))
    assert [type(message) for _, message in us.sends] == [Answer]


def test_what_neighbours_fail_to_mention_is_asked_of_the_proxy():
    us = agent()
    us.receive(Y, Advertisement((counter(10),)))
    us.receive(Y, Advertisement((counter(10),)))  # nobody has said a word between the two
    assert us.sent(Request) == [(Y, Request(STREAM, 1, 1, 10))]


def test_who_is_served_by_the_proxy_is_served_by_the_agent_once_it_has_the_same():
    """Whoever asks for what the proxy itself has not heard of yet is sent to the proxy: for the
    moment, or the proxy would feed a part of its region for ever."""
    us = agent()
    us.protocol.subscribe(2, STREAM, 1, 1, 1 << 20)
    us.call("on_timer")
    assert us.sent(Subscribe) == [(Y, Subscribe(2, STREAM, 1, 1, 1 << 20))]
    us.receive(5, Notify((counter(1),), (events(1, 1),)))
    got = []
    for source, message in (
        (Y, Tail((events(2, 3),))),
        (Y, Tail((events(5, 2),))),  # was on its way when we said enough
        (5, Notify((counter(8),), (events(7, 2),))),
    ):
        us.receive(source, message)
        if not got:
            assert us.sent(Unsubscribe) == [(Y, Unsubscribe(2))]
        got += [(op.topic, op.batch.first, op.batch.last) for op in us.fx.operations
                if isinstance(op, TopicDelivery)]  # fmt: skip
    assert [part for part in got if part[0] == 2] == [(2, 2, 4), (2, 5, 6), (2, 7, 8)]


def test_an_agent_tells_its_neighbours_when_it_has_made_progress():
    us = agent()
    us.receive(5, ViewExchange(Peer(5), (Peer(6),), False))
    us.receive(5, Notify((counter(3),), (events(1, 3),)))
    us.call("on_timer")
    [(to, message)] = us.sent(Notify)
    assert set(to) == {5, 6}
    assert message.counters == (counter(3),)


# -- fanout and shuffling ---------------------------------------------------------------------


def notified(us, count, step):
    told = []
    for seq in range(1, count + 1):
        us.now += step
        us.receive(5, Notify((counter(seq),), (events(seq),)))
        us.call("on_timer")
        [(to, _)] = us.sent(Notify)
        told.append(frozenset(to))
    return told


def test_only_f_neighbours_are_told_and_never_the_proxy():
    us = agent(view_size=10, fanout=3)
    us.receive(5, ViewExchange(Peer(5), tuple(Peer(100 + i) for i in range(8)), False))
    told = notified(us, 30, 100 * MS)
    assert {len(each) for each in told} == {3}
    assert all(Y not in each for each in told)


def test_neighbours_change_with_every_shuffle_and_not_between():
    us = agent(view_size=20, fanout=2, shuffle_time_ns=SECOND)
    us.receive(5, ViewExchange(Peer(5), tuple(Peer(100 + i) for i in range(15)), False))
    told = notified(us, 100, 100 * MS)
    runs = [told[at : at + 10] for at in range(0, 100, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert len({run[0] for run in runs}) > 5
    assert len(frozenset.union(*told)) > 8


# -- membership -------------------------------------------------------------------------------


def test_an_agent_starts_with_only_the_proxy_in_its_view():
    assert agent().protocol.neighbors() == [Y]


def test_who_gossips_is_in_the_view_afterwards():
    us = agent(view_size=3, fanout=1)
    for peer in range(100, 150):
        us.receive(peer, ViewExchange(Peer(peer), (Peer(1), Peer(500), Peer(501)), False))
        assert peer in us.protocol.neighbors()
        assert len(us.protocol.neighbors()) <= 3
        assert 1 not in us.protocol.neighbors()


def test_a_view_below_its_size_takes_the_proxy_in():
    us = agent(view_size=4, fanout=1)
    us.receive(5, ViewExchange(Peer(5), (), False))
    us.protocol._view.remove(Y)
    us.fire("gossip")
    assert Y in us.protocol.neighbors()


def test_every_now_and_then_an_agent_gossips_with_the_proxy_in_any_case():
    us = agent(view_size=2, fanout=1, proxy_gossip=5)
    partners = Tally()
    for _ in range(50):
        us.receive(5, ViewExchange(Peer(5), (Peer(6), Peer(7)), False))
        us.receive(Y, Advertisement((counter(0),)))
        us.fire("gossip")
        partners[us.sent(ViewExchange)[0][0]] += 1
    assert partners[Y] >= 10


def test_with_reinforcement_the_graph_is_connected_and_has_no_hub():
    world = region(60)
    world.run(20 * SECOND)
    graph = neighbours(world)
    proxy_id = world.geo.proxies["y"].id
    assert is_connected(graph)
    degrees = Tally(peer for view in graph.values() for peer in view)
    others = [degrees[node] for node in graph if node != proxy_id]
    assert max(others) <= 20  # the mean is below 6; a star has 60
    assert sum(others) / len(others) > 3


def test_a_partition_of_three_agents_heals():
    world = region(30)
    world.run(10 * SECOND)
    island = [world.geo.agents["y"][at] for at in range(3)]
    ids = {node.id for node in island}
    for node in world.simulation.live_nodes():
        if node.id in ids:  # they know only each other, and nobody else knows them
            view = node.protocol._view
            for peer in view.ids():
                view.remove(peer)
            for other in island:
                if other is not node:
                    view.add(other.peer)
        elif hasattr(node.protocol, "_view"):
            for peer in ids:
                node.protocol._view.remove(peer)
    assert not is_connected(neighbours(world))
    world.run(3 * SECOND)
    assert is_connected(neighbours(world))


def test_who_has_crashed_disappears_from_views():
    world = region(30)
    world.run(5 * SECOND)
    gone = world.geo.agents["y"][:10]
    for node in gone:
        del world.auditor.sessions[node.id, 1]
        world.crash(node, silently=True)
    world.run(60 * SECOND)
    remembered = Tally(
        peer
        for node in world.simulation.live_nodes()
        for peer in node.protocol.neighbors()
        if peer in {node.id for node in gone}
    )
    assert sum(remembered.values()) == 0


def test_everybody_in_a_region_gets_everything():
    world = region(25, ride_bytes=0)
    publisher = world.client("y", "p")
    world.run(5 * SECOND)
    for _ in range(50):
        world.publish(publisher.node, "s", [b""] * 20)
        world.run(20 * MS)
    world.drain()
    assert world.auditor.delivered == 25 * 1000
