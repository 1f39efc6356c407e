"""Reinforced views as a membership of their own."""

from random import Random
from statistics import mean

from epicast.core import Peer
from epicast.protocols.reinforcement import Reinforcement, ReinforcementConfig
from epicast.protocols.reinforcement.messages import ViewExchange
from tests.protocols.cyclon.nodes import in_degrees
from tests.protocols.cyclon.test_paper import reached_from
from tests.protocols.harness import MS, SECOND, Network
from tests.protocols.single import Single

ME = 100


def node(*contacts: int, **changes) -> Single:
    single = Single(Reinforcement(Peer(ME), ReinforcementConfig(**changes), Random(1)))
    single.start(*contacts)
    return single


def system(count: int, **changes) -> Network:
    network, config = Network(), ReinforcementConfig(view_size=8, **changes)
    for me in range(1, count + 1):
        network.start(Reinforcement(Peer(me), config, Random(me)), [1] if me > 1 else [])
        network.run(50 * MS)
    network.run(30 * SECOND)
    return network


def test_a_newcomer_exchanges_views_with_its_contact():
    single = node(5)
    single.start(5)
    assert single.sends == [(5, ViewExchange(Peer(ME), (), True))]
    single.receive(5, ViewExchange(Peer(5), (Peer(6), Peer(ME)), False))
    assert sorted(single.protocol.neighbors()) == [5, 6]
    assert sorted(single.told) == [5, 6]


def test_who_asks_is_answered_and_taken_in():
    single = node()
    single.receive(5, ViewExchange(Peer(5), (Peer(6),), True))
    assert single.sends == [(5, ViewExchange(Peer(ME), (), False))]
    assert sorted(single.protocol.neighbors()) == [5, 6]


def test_a_view_under_another_name_is_dropped():
    single = node()
    single.receive(5, ViewExchange(Peer(6), (), True))
    assert single.drops() == ["view under another name"]
    assert single.protocol.neighbors() == []


def test_a_system_joined_through_one_node_becomes_random_and_forgets_the_dead():
    network = system(60)
    assert len(reached_from(network, 1)) == 60
    assert mean(len(p.neighbors()) for p in network.nodes.values()) > 7.5
    assert max(in_degrees(network).values()) < 30
    for victim in range(1, 11):
        network.kill(victim)
    network.run(120 * SECOND)
    dead = sum(peer <= 10 for p in network.nodes.values() for peer in p.neighbors())
    assert dead < 10  # of 400 places
    assert len(reached_from(network, 60)) == 50


def test_the_sides_of_a_split_find_each_other_through_a_contact():
    network = system(20, contact_every=5)
    left = set(range(1, 11))
    network.partition(left)
    network.run(300 * SECOND)
    network.partition()
    network.run(30 * SECOND)
    assert reached_from(network, 15) == set(network.nodes)
