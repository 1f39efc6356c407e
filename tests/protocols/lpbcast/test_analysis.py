"""The analysis of section 4 against itself, against chance and against known values."""

from math import comb, inf, isclose, log
from random import Random
from statistics import mean

import numpy as np
import pytest

from epicast.core import ConfigError
from epicast.protocols.lpbcast.analysis import (
    EXACT_NODES,
    Spread,
    partition_chances,
    rounds_to_partition,
    transitions,
)
from epicast.protocols.lpbcast.planning import plan_gossip


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
        ({"event_bytes": -1}, "are not negative"),
    ],
)
def test_what_cannot_be_planned_is_said(wrong, words):
    with pytest.raises(ConfigError, match=words):
        plan_gossip(**{"nodes": 100, **wrong})


def test_events_published_together_share_what_a_batch_costs():
    alone, together, more = (
        plan_gossip(200, events_per_s=1000, event_bytes=8, batch_events=count)
        for count in (1, 100, 10_000)
    )
    assert together.bytes_per_s < alone.bytes_per_s / 5
    assert together.fanout == alone.fanout
    assert more.bytes_per_s > together.bytes_per_s / 2  # parts of a batch cost what batches do
    with pytest.raises(ConfigError, match="batch_events"):
        plan_gossip(200, batch_events=0)
