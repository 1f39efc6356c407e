"""Scamp: subscriptions that find their places, leaving, leases."""

from math import log
from random import Random
from statistics import mean

from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import Peer
from epicast.protocols.scamp import Scamp, ScampConfig
from epicast.protocols.scamp import messages as wire
from epicast.sim.overlay import Overlay
from tests.protocols.cyclon.nodes import in_degrees
from tests.protocols.harness import MS, SECOND, Network
from tests.protocols.single import Single

ME = 100


def node(*view: int, contacts: tuple[int, ...] = (), seed: int = 1, **changes) -> Single:
    single = Single(Scamp(Peer(ME), ScampConfig(**changes), Random(seed)))
    single.start(*contacts)
    for peer in view:  # a lone node keeps whoever is passed on to it for the last time
        single.receive(peer, wire.Forwarded(Peer(peer), 10_000))
    assert sorted(single.protocol.neighbors()) == sorted(view)
    return single


def system(count: int, gap: int = 50 * MS, **changes) -> Network:
    network, config = Network(), ScampConfig(**changes)
    for me in range(1, count + 1):
        network.start(Scamp(Peer(me), config, Random(me)), [1] if me > 1 else [])
        network.run(gap)
    network.run(SECOND)
    return network


def connected(network: Network) -> bool:
    views = {me: protocol.neighbors() for me, protocol in network.nodes.items()}
    return Overlay.from_views(views).measure(1).connected


def test_a_contact_passes_a_subscription_to_its_whole_view_and_some_more():
    single = node(1, 2, 3, extra_copies=2, walk_length=0)
    single.receive(9, wire.Subscription(Peer(9), 5, True))
    assert single.sent(wire.Welcome) == [(9, wire.Welcome(Peer(ME)))]
    copies = [to for to, _ in single.sent(wire.Forwarded)]
    assert len(copies) == 5
    assert set(copies) == {1, 2, 3}


def test_a_subscription_walks_before_it_counts():
    single = node(1, 2, 3, walk_length=4)
    single.receive(9, wire.Subscription(Peer(9), 4, True))
    [(to, message)] = single.sends
    assert to in (1, 2, 3)
    assert message == wire.Subscription(Peer(9), 3, True)


def test_a_newcomer_begins_its_view_with_who_welcomes_it():
    single = node(contacts=(5,))
    single.start(5)
    assert [(to, m.newcomer) for to, m in single.sent(wire.Subscription)] == [(5, True)]
    single.receive(7, wire.Welcome(Peer(7)))
    assert single.protocol.neighbors() == [7]
    single.receive(8, wire.Welcome(Peer(8)))
    assert single.drops() == ["welcome of a stranger"]


def test_a_lone_node_keeps_the_first_subscriber_and_tells_it():
    single = node()
    single.receive(9, wire.Subscription(Peer(9), 0, True))
    assert single.protocol.neighbors() == [9]
    assert single.sends == [(9, wire.Welcome(Peer(ME))), (9, wire.Kept())]


def test_a_copy_is_kept_with_one_over_the_view_size_plus_one():
    kept = 0
    for seed in range(300):
        single = node(1, 2, 3, seed=seed)
        single.receive(1, wire.Forwarded(Peer(9), 0))
        kept += 9 in single.protocol.neighbors()
    assert 50 < kept < 105  # 75 on average


def test_leaving_puts_neighbours_in_its_place():
    single = node(1, 2, extra_copies=1)
    for keeper in (11, 12, 13, 14, 15):
        single.receive(keeper, wire.Kept())
    single.call("on_stop")
    replaced = [(to, m.replacement and m.replacement.id) for to, m in single.sent(wire.Replace)]
    assert replaced == [(11, 1), (12, 2), (13, 1), (14, None), (15, None)]
    assert [to for to, _ in single.sent(wire.Forgotten)] == [1, 2]


def test_who_is_told_to_replace_a_leaver_does_so():
    single = node(1, 2)
    single.receive(1, wire.Replace(Peer(7)))
    assert sorted(single.protocol.neighbors()) == [2, 7]
    assert single.sends == [(7, wire.Kept())]
    single.receive(1, wire.Replace(Peer(8)))
    assert single.drops() == ["replaced by one we do not know"]


def test_views_grow_with_the_logarithm_of_the_system():
    """About (c + 1) ln n, whatever anybody knows of n."""
    sizes = {}
    for count in (30, 120):
        network = system(count, extra_copies=0, lease_ns=3600 * SECOND)
        sizes[count] = mean(len(p.neighbors()) for p in network.nodes.values())
        assert 0.6 * log(count) < sizes[count] < 2 * log(count)
        assert connected(network)
    assert sizes[120] > sizes[30]


def test_a_common_contact_is_no_hub():
    network = system(60)
    counts = in_degrees(network)
    assert counts[1] < 30
    assert connected(network)


def test_the_dead_are_forgotten_when_their_leases_end():
    network = system(40, lease_ns=10 * SECOND, heartbeat_period_ns=SECOND)
    for victim in range(1, 11):
        network.kill(victim)
    network.run(30 * SECOND)
    for protocol in network.nodes.values():
        assert not set(protocol.neighbors()) & set(range(2, 11))
    assert connected(network)


def test_an_isolated_node_subscribes_again():
    network = system(12, lease_ns=10 * SECOND, heartbeat_period_ns=SECOND)
    network.partition([7])
    network.run(30 * SECOND)
    assert in_degrees(network)[7] == 0
    network.partition()
    network.run(15 * SECOND)
    assert in_degrees(network)[7] > 0


def test_a_subscription_that_nobody_keeps_is_made_again():
    single = node(1, 2, contacts=(5,), heartbeat_period_ns=SECOND, lease_ns=300 * SECOND)
    single.receive(1, wire.Kept())
    single.fire("lease")  # nothing comes of this one: it may have gone to a contact that has left
    again = []
    for _ in range(4):
        single.wait(SECOND)
        again += single.sent(wire.Subscription)
        single.receive(1, wire.Heartbeat())
    assert len(again) == 2
    single.receive(2, wire.Kept())
    for _ in range(5):
        single.wait(SECOND)
        assert not single.sent(wire.Subscription)
        single.receive(1, wire.Heartbeat())


def test_a_node_whose_neighbours_and_contacts_are_all_gone_asks_former_neighbours():
    single = node(1, 2, contacts=(5,), lease_ns=10 * SECOND, heartbeat_period_ns=SECOND)
    asked = set()
    for _ in range(60):
        single.wait(SECOND)
        asked |= {to for to, _ in single.sent(wire.Subscription)}
    assert single.protocol.neighbors() == []
    assert asked == {1, 2, 5}


PEERS = st.builds(Peer, st.sampled_from([*range(8), ME]))
MESSAGES = st.one_of(
    st.builds(wire.Subscription, PEERS, st.integers(-1, 9), st.booleans()),
    st.builds(wire.Welcome, PEERS),
    st.builds(wire.Forwarded, PEERS, st.integers(-1, 300)),
    st.builds(wire.Kept),
    st.builds(wire.Forgotten),
    st.builds(wire.Heartbeat),
    st.builds(wire.Replace, st.one_of(st.none(), PEERS)),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.tuples(st.integers(0, 7), MESSAGES), st.just("wait")), max_size=40))
def test_whatever_comes_the_view_stays_sane(steps):
    single = node(max_view=5)
    for step in steps:
        if step == "wait":
            single.wait(20 * SECOND)
        else:
            single.receive(*step)
        assert sorted(single.told) == sorted(single.protocol.neighbors())
        assert all(to != ME for to, _ in single.sends)
