"""pbcast: a multicast that promises nothing, and gossip that repairs."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import DATA, DATAGRAM, EventBatch, Group, Peer, Publication
from epicast.core.effects import Join, Leave, Refuse
from epicast.protocols.catalog import stack_factory
from epicast.protocols.lpbcast import LpbcastConfig
from epicast.protocols.membership import FullMembership
from epicast.protocols.pbcast import Pbcast, PbcastConfig
from epicast.protocols.pbcast.messages import Digest, Pass, Passed, Range, Solicit
from epicast.sim.checkers import check_nodes
from epicast.sim.latency import UniformLatency
from epicast.sim.network import Conditions
from epicast.sim.simulation import Simulation
from tests.protocols.lpbcast.nodes import ME, batch
from tests.protocols.single import Single

MS = 1_000_000
SECOND = 1000 * MS


def node(**changes) -> Single:
    config = PbcastConfig(**{"fanout": 2, "aligned_rounds": True, **changes})
    peers = FullMembership(ME, [1, 2, 3, ME], Random(2))
    single = Single(Pbcast(Peer(ME), config, Random(1), peers))
    single.start()
    return single


def publish(single, *batches):
    single.call("on_publish", [Publication(ME, each.first, each) for each in batches])


def delivered(single):
    return [(b.stream, n) for b in single.fx.deliveries for n in range(b.first, b.last + 1)]


def named(single):
    """The ids gossiped in the next round."""
    single.fire("round")
    return [item for _, message in single.sent(Digest) for item in message.available]


def test_first_phase_is_a_multicast():
    single = node(group=7)
    single.start()
    assert [op.group for op in single.fx.operations if isinstance(op, Join)] == [Group(7)]
    publish(single, batch(ME, 1, 2))
    [(to, message, channel)] = single.fx.sends
    assert (to, channel) == (Group(7), DATAGRAM)
    assert [item.batch.first for item in message.events] == [1, 2]
    assert delivered(single) == [(ME, 1), (ME, 2)]
    single.call("on_stop")
    assert [op.group for op in single.fx.operations if isinstance(op, Leave)] == [Group(7)]
    silent = node(first_phase="none")
    publish(silent, batch(ME, 1))
    assert silent.fx.sends == []


def test_who_lacks_an_event_solicits_it_and_gets_it():
    owner, other = node(), node()
    owner.receive(1, Pass((Passed(3, 2, batch(7, 1, 3)),)))
    owner.fire("round")
    [(targets, digest)] = owner.sent(Digest)
    assert len(targets) == 2
    assert digest.available == (Range(7, 1, 3),)
    other.receive(1, Pass((Passed(0, 0, batch(7, 2)),)))
    other.receive(5, digest)
    [(to, request)] = other.sent(Solicit)
    assert to == 5
    assert request.wanted == (Range(7, 1, 1), Range(7, 3, 3))
    other.receive(6, digest)
    assert other.sends == []  # one who has it is enough
    owner.receive(9, request)
    [(_, answer)] = owner.sent(Pass)
    assert {(item.age, item.hops) for item in answer.events} == {(4, 3)}
    other.receive(5, answer)
    assert delivered(other) == [(7, 1), (7, 3)]


def test_an_event_is_gossiped_a_limited_number_of_rounds():
    single = node(repetitions=2)
    single.receive(1, Pass((Passed(0, 0, batch(7, 1)),)))
    assert [len(named(single)) for _ in range(4)] == [1, 1, 0, 0]


def test_an_event_is_passed_on_a_limited_number_of_times():
    single = node(max_hops=3)
    single.receive(1, Pass((Passed(0, 2, batch(7, 1)), Passed(0, 3, batch(8, 1)))))
    assert delivered(single) == [(7, 1), (8, 1)]
    assert named(single) == [Range(7, 1, 1)]


def test_a_full_buffer_is_purged_by_age_or_at_random():
    for source in range(20):  # whatever is drawn
        single = node(max_events=1, purging="age")
        events = [Passed(9 if each < source else 2 if each == source else 5, 0, batch(each, 1))
                  for each in range(20)]  # fmt: skip
        single.receive(1, Pass(tuple(events)))
        assert named(single) == [Range(source, 1, 1)]
    kept = set()
    for seed in range(20):
        peers = FullMembership(ME, [1, 2, ME], Random(2))
        config = PbcastConfig(max_events=1, purging="random", aligned_rounds=True)
        single = Single(Pbcast(Peer(ME), config, Random(seed), peers))
        single.start()
        single.receive(1, Pass((Passed(5, 0, batch(7, 1)), Passed(2, 0, batch(8, 1)))))
        kept |= {item.source for item in named(single)}
    assert kept == {7, 8}


def test_a_large_event_goes_over_a_connection():
    single = node()
    publish(single, batch(ME, 1, size=5000))
    assert single.fx.sends == []  # no datagram can carry it
    single.receive(5, Solicit((Range(ME, 1, 1),)))
    [(to, _, channel)] = single.fx.sends
    assert (to, channel) == (5, DATA)


def test_what_makes_no_sense_is_dropped_and_counted():
    single = node(max_event_bytes=1000)
    single.receive(1, Digest((Range(7, 0, 2),)))
    assert single.drops() == ["malformed ids"]
    single.receive(1, Pass((Passed(1, 0, EventBatch.build(7, 1, [b""], seqs=[1], last=2**50)),)))
    assert single.drops() == ["malformed events"]
    single.receive(1, Pass((Passed(1, 0, batch(7, 1, size=2000)),)))
    assert single.drops() == ["event too large"]
    single.receive(1, Solicit((Range(7, 1, 2**60),)))  # forged, and no work
    publish(single, batch(ME, 1, size=2000))
    assert [type(op) for op in single.fx.operations] == [Refuse]


RANGES = st.lists(
    st.builds(Range, st.integers(0, 3), st.integers(1, 9), st.integers(-1, 2**60)), max_size=4
).map(tuple)
EVENTS = st.lists(
    st.builds(
        lambda age, hops, source, first, count: Passed(age, hops, batch(source, first, count)),
        st.integers(0, 9), st.integers(0, 12), st.integers(1, 3), st.integers(1, 9),
        st.integers(1, 4),
    ),
    max_size=4,
).map(tuple)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.builds(Pass, EVENTS), st.builds(Digest, RANGES), st.builds(Solicit, RANGES),
            st.just("round"),
        ),
        max_size=20,
    )
)  # fmt: skip
def test_whatever_comes_bounds_hold_and_events_are_delivered_once(steps):
    single = node(max_events=6, repetitions=2, max_message_bytes=600)
    had = set()
    for step in steps:
        if step == "round":
            single.fire("round")
        else:
            single.receive(2, step)
        for _, message in single.sends:
            assert message.wire_size() <= 600
        new = delivered(single)
        assert not set(new) & had
        had |= set(new)


@pytest.mark.parametrize("stack", ["full", "lpbcast"])
def test_gossip_repairs_what_a_lossy_multicast_missed(stack):
    """Full views as in the original, and the partial views of lpbcast (section 8.2)."""
    nodes, counts = 40, Counter()
    simulation = Simulation(
        1,
        latency=UniformLatency(MS, 20 * MS, 1),
        conditions=Conditions(loss=0.15),
        on_delivery=lambda now, node, batch: counts.update([batch.first]),
    )
    config = PbcastConfig(gossip_period_ns=100 * MS, repetitions=8)
    everybody = list(range(1, nodes + 1))
    views = LpbcastConfig(gossip_period_ns=100 * MS, view_size=8)

    def full(peer, rng):
        return Pbcast(peer, config, rng, FullMembership(peer.id, everybody, rng))

    partial = stack_factory(["lpbcast", "pbcast"], {"lpbcast": views, "pbcast": config})
    rng = Random(1)
    for identity in everybody:
        contacts = [Peer(each) for each in rng.sample(everybody, 3) if each != identity]
        simulation.add_node(full if stack == "full" else partial, contacts, identity)
    simulation.run_for(SECOND)
    before = simulation.delivered_events
    for number in range(1, 11):
        simulation.publish(simulation.nodes[1], EventBatch.build(1, number, [b"x"]))
        simulation.run_for(30 * MS)
    at_once = simulation.delivered_events - before
    simulation.run_for(2 * SECOND)
    check_nodes(simulation)
    assert at_once < 400  # a part of the multicast was lost
    assert counts == {number: nodes for number in range(1, 11)}
