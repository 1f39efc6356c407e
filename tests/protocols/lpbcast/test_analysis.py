"""The analysis of section 4 against itself, against chance and against known values."""

from math import comb, inf, isclose, log, nan
from random import Random
from statistics import mean

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from epicast.core import ConfigError, Peer
from epicast.protocols.lpbcast import Lpbcast
from epicast.protocols.lpbcast.analysis import (
    EXACT_NODES,
    Spread,
    partition_chances,
    rounds_to_partition,
    transitions,
)
from epicast.protocols.lpbcast.messages import EventRange, Gossip, Retrieve, Subscription
from epicast.protocols.lpbcast.planning import plan_gossip
from tests.protocols.lpbcast.nodes import ME, batch, gossip
from tests.protocols.single import Single

SECOND = 1_000_000_000


def test_equation_2_is_a_probability():
    steps = transitions(40, 0.07)
    assert np.allclose(steps.sum(axis=1), 1)
    assert np.all(np.tril(steps, -1) == 0)  # nobody recovers


def test_equation_2_by_hand():
    """Three processes, one infected: the others are infected independently."""
    p = 0.3
    assert np.allclose(transitions(3, p)[0], [(1 - p) ** 2, 2 * p * (1 - p), p * p])
    both = 1 - (1 - p) ** 2
    assert np.allclose(transitions(3, p)[1], [0, 1 - both, both])


def test_the_chain_is_what_a_thousand_throws_of_dice_say():
    spread, rng = Spread(nodes=30, fanout=2), Random(1)
    counts = np.zeros(8)
    for _ in range(1000):
        infected = 1
        for number in range(8):
            counts[number] += infected / 1000
            escape = (1 - spread.infection) ** infected
            infected += sum(rng.random() > escape for _ in range(30 - infected))
    assert np.allclose(counts, spread.infected(7), rtol=0.05)


def test_beyond_the_exact_sizes_the_chain_is_drawn_and_continues_the_curve():
    exact, drawn = (
        Spread(nodes=nodes, fanout=3).rounds_to(0.99) for nodes in (EXACT_NODES, EXACT_NODES + 1)
    )
    assert exact == pytest.approx(drawn, abs=0.1)
    again = Spread(nodes=EXACT_NODES + 1, fanout=3).rounds_to(0.99)
    assert again == drawn


def test_figure_3_rounds_grow_with_the_logarithm_of_the_size():
    rounds = {n: Spread(nodes=n, fanout=3).rounds_to(0.99) for n in (125, 250, 500, 100_000)}
    doubling = rounds[250] - rounds[125]
    assert rounds[500] - rounds[250] == pytest.approx(doubling, abs=0.1)
    wanted = rounds[125] + doubling * log(800, 2)
    assert rounds[100_000] == pytest.approx(wanted, rel=0.08)


def test_figure_2_a_larger_fanout_needs_fewer_rounds():
    rounds = [Spread(nodes=125, fanout=fanout).rounds_to(0.99) for fanout in (3, 4, 5, 6)]
    assert rounds == sorted(rounds, reverse=True)
    assert rounds[0] == pytest.approx(5.88, abs=0.01)


def test_equation_4_by_counting():
    """Views of one among four: two pairs know each other with probability 3 / 81."""
    [chance] = partition_chances(4, 1)
    assert isclose(chance, comb(4, 2) / 3**4)  # as printed, each of two pairs counts twice


def test_partitions_become_rarer_with_views_and_with_size():
    assert rounds_to_partition(50, 2) < rounds_to_partition(50, 3) < rounds_to_partition(50, 4)
    assert rounds_to_partition(50, 3) < rounds_to_partition(75, 3) < rounds_to_partition(125, 3)
    assert rounds_to_partition(10, 8) == inf
    assert rounds_to_partition(50, 3) == pytest.approx(1.84e17, rel=0.01)


def test_a_plan_buys_what_was_asked_for():
    plan = plan_gossip(500, loss=0.2, reliability=0.999, events_per_s=50, event_bytes=50)
    spread = Spread(nodes=500, fanout=plan.fanout, loss=0.2)
    assert spread.infected(plan.rounds)[-1] >= 0.999 * 500
    assert spread.infected(plan.rounds - 1)[-1] < 0.999 * 500
    lower = Spread(nodes=500, fanout=plan.fanout - 1, loss=0.2)
    assert lower.infected(10)[-1] < 0.999 * 500
    assert plan.max_events >= 50 * 0.2 * plan.rounds  # 50 a second, rounds of 200 ms
    config = plan.config(200_000_000)
    assert (config.fanout, config.max_events) == (plan.fanout, plan.max_events)


def test_memory_of_a_plan_does_not_depend_on_the_size_of_the_system():
    small, large = (plan_gossip(nodes, within_rounds=14).memory_bytes for nodes in (100, 100_000))
    assert mean((small, large)) == pytest.approx(small, rel=0.1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"nodes": 1}, "nodes: 1 is not between"),
        ({"loss": 1.0}, "loss: 1.0 is not in"),
        ({"reliability": 1.0}, "reliability: 1.0 is not between"),
        ({"within_rounds": 1}, "within_rounds: 1 rounds are too few"),
        ({"event_bytes": -1}, "event_bytes: -1 is not between 0 and"),
        ({"event_bytes": 5_000_000}, "publish parts, or where the data is"),
        ({"events_per_s": nan}, "events_per_s: nan is not a number that is 0 or more"),
        ({"events_per_s": inf}, "events_per_s: inf is not a number"),
        ({"events_per_s": -1}, "events_per_s: -1 is not a number"),
        ({"events_per_s": 1e308, "period_ns": 3600 * SECOND}, "max_events is at most 10,000"),
        ({"events_per_s": 7000}, "events live at a time .8 rounds each.*a shorter period"),
        ({"events_per_s": 1000, "event_bytes": 8}, "is at most 64; .* in larger batches"),
        ({"events_per_s": 1000, "event_bytes": 10**6}, "more than a max_buffer_bytes of"),
        ({"period_ns": 0}, "period: 0 s is not between 1 ms and 1 h"),
        ({"period_ns": 7200 * SECOND}, "period: 7200 s is not between"),
        ({"within_rounds": 0}, "within_rounds: 0 is not between 1 and 1000"),
        ({"within_rounds": 1001}, "within_rounds: 1001 is not between 1 and 1000"),
        ({"within_rounds": 3, "event_bytes": 5000}, "are fetched, which takes a round more"),
        ({"loss": nan}, "loss: nan is not in"),
    ],
)
def test_what_cannot_be_planned_is_said(wrong, words):
    with pytest.raises(ConfigError, match=words):
        plan_gossip(**{"nodes": 100, **wrong})


@settings(max_examples=150, deadline=None)
@given(
    nodes=st.integers(2, 60),
    loss=st.floats(0, 0.99),
    reliability=st.floats(0.01, 0.999),
    events_per_s=st.one_of(st.floats(0, 20_000), st.floats()),
    event_bytes=st.one_of(st.integers(0, 2000), st.integers(0, 2 << 20)),
    batch_events=st.integers(1, 2000),
    period_ns=st.one_of(st.integers(10**6, SECOND), st.integers(0, 5000 * SECOND)),
    within_rounds=st.integers(1, 300),
)
@example(
    nodes=2, loss=0.0, reliability=0.5, events_per_s=0.0, event_bytes=1045, batch_events=1,
    period_ns=1_000_000, within_rounds=1,
)  # fmt: skip
def test_a_plan_is_one_that_the_settings_allow_or_an_error_says_why_not(nodes, **wanted):
    try:
        plan = plan_gossip(nodes, **wanted)
    except ConfigError:
        return
    config = plan.config(wanted["period_ns"])
    living = wanted["events_per_s"] * wanted["period_ns"] / SECOND * plan.rounds
    assert config.max_events >= living
    assert config.max_buffer_bytes >= living * wanted["event_bytes"]
    assert config.max_stored_bytes >= config.max_buffer_bytes
    assert plan.rounds <= wanted["within_rounds"]


@pytest.mark.parametrize(("size", "batch_events"), [(20, 1), (20, 50), (3000, 1)])
def test_a_peer_sends_what_the_plan_says(size, batch_events):
    """A peer in the steady state: what is published comes, and is asked for if it is large."""
    plan = plan_gossip(100, events_per_s=100, event_bytes=size, batch_events=batch_events,
                       period_ns=SECOND // 2)  # fmt: skip
    settings_ = plan.config(SECOND // 2)
    single = Single(Lpbcast(Peer(ME, "127.0.0.1", 7400), settings_, Random(1)))
    single.start()
    members = range(1, plan.view_size + 1)
    single.receive(1, Gossip(tuple(Subscription(Peer(i, "127.0.0.1", 7400), 1) for i in members)))
    sizes = []
    for number in range(60):
        begin, per_round = 1 + 50 * number, min(50, batch_events)
        for first in range(begin, begin + 50, per_round):
            single.receive(1, gossip((0, batch(7, first, per_round, size))))
        size_sent = 0
        if plan.announced:  # each of them by somebody
            single.receive(2, Retrieve((EventRange(7, begin, begin + 49),)))
            size_sent += sum(message.wire_size() for _, message in single.sends)
        single.fire("round")
        size_sent += sum(len(to) * message.wire_size() for to, message in single.sends)
        sizes.append(size_sent)
    sent = 2 * mean(sizes[30:])
    # Events are passed on until they are twice as old as they must become.
    assert 0.4 * plan.bytes_per_s < sent < 2 * plan.bytes_per_s
    assert single.protocol.statistics()["purged_young"] == 0


def test_large_events_are_planned_as_they_travel():
    small, large = (plan_gossip(200, event_bytes=size) for size in (1000, 100_000))
    assert (small.announced, large.announced) == (False, True)
    assert large.max_buffer_bytes >= large.max_events * 100_000
    assert large.critical_age_rounds % 2 == 0  # two rounds for each time they are passed on
    # Ten a second, once each, and not in every gossip of every round.
    assert 10 * 100_000 < large.bytes_per_s < 1.3 * 10 * 100_000


def test_views_of_a_plan_are_passed_on_often_enough_to_stay_random():
    for nodes in (10, 100, 1000):
        plan = plan_gossip(nodes)
        assert plan.max_subs * plan.fanout >= 3 * plan.view_size


@pytest.mark.parametrize("nodes", [4, 6, 8, 9, 10, 11, 12, 14, 20, 50, 1000])
def test_views_of_a_plan_hold_for_a_century(nodes):
    plan = plan_gossip(nodes, within_rounds=100, period_ns=1_000_000)
    assert plan.fanout == 1
    assert plan.years_to_partition > 100


def test_events_published_together_share_what_a_batch_costs():
    alone, together, more = (
        plan_gossip(200, events_per_s=400, event_bytes=8, batch_events=count)
        for count in (1, 100, 10_000)
    )
    assert together.bytes_per_s < alone.bytes_per_s / 5
    assert together.fanout == alone.fanout
    assert more.bytes_per_s > together.bytes_per_s / 2  # parts of a batch cost what batches do
    with pytest.raises(ConfigError, match="batch_events"):
        plan_gossip(200, batch_events=0)
