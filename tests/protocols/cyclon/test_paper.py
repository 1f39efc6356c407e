"""What Voulgaris, Gavidia and van Steen say of Cyclon."""

from statistics import mean, pstdev

from tests.protocols.cyclon.nodes import in_degrees, overlay
from tests.protocols.harness import MS, SECOND

SMALL = {"view_size": 8, "shuffle_length": 4}
PERIOD = 10 * SECOND


def reached_from(network, start):
    seen, todo = {start}, [start]
    while todo:
        found = set(network.nodes[todo.pop()].neighbors()) & set(network.nodes) - seen
        seen |= found
        todo += sorted(found)
    return seen


def test_join_walks_give_a_newcomer_a_full_view_and_a_fair_in_degree():
    network = overlay(80, **SMALL)
    network.run(100 * MS)  # the last walks; hardly anybody has shuffled yet
    settled = range(20, 81)
    assert mean(len(network.nodes[me].neighbors()) for me in settled) > 7
    counts = in_degrees(network)
    assert mean(counts[me] for me in settled) > 6
    assert min(counts[me] for me in settled) >= 2
    # Everybody joined through node 1, which is no hub for it.
    assert counts[1] <= 4 * SMALL["view_size"]


def test_in_degrees_become_narrow():
    network = overlay(120, **SMALL)
    network.run(40 * PERIOD)
    counts = list(in_degrees(network).values())
    assert 7.5 < mean(counts) <= 8
    assert pstdev(counts) < 2.2  # a random graph of this degree: 2.7
    assert min(counts) >= 2


def test_overlay_stays_connected_while_views_change_completely():
    network = overlay(80, **SMALL)
    network.run(5 * PERIOD)
    before = {me: set(protocol.neighbors()) for me, protocol in network.nodes.items()}
    network.run(30 * PERIOD)
    assert len(reached_from(network, 1)) == 80
    kept = mean(
        len(before[me] & set(protocol.neighbors())) for me, protocol in network.nodes.items()
    )
    assert kept < 2  # 0.8 by chance


def test_dead_entries_are_gone_without_failure_detection():
    network = overlay(100, **SMALL)
    network.run(20 * PERIOD)
    for victim in range(1, 51):
        network.kill(victim)
    network.run(30 * PERIOD)
    alive = set(network.nodes)
    assert all(set(protocol.neighbors()) <= alive for protocol in network.nodes.values())
    assert all(reached_from(network, me) == alive for me in (51, 75, 100))


def test_cut_off_node_comes_back_through_its_contact():
    network = overlay(30, **SMALL)
    network.run(10 * PERIOD)
    network.partition([7])
    network.run(20 * PERIOD)
    assert network.nodes[7].neighbors() == []
    network.partition()
    network.run(20 * PERIOD)
    assert len(network.nodes[7].neighbors()) >= 6
    assert in_degrees(network)[7] > 0


def test_two_nodes_find_each_other():
    network = overlay(2, **SMALL)
    network.run(20 * PERIOD)
    assert network.nodes[1].neighbors() == [2]
    assert network.nodes[2].neighbors() == [1]


def test_what_the_layer_above_hears_is_the_view():
    network = overlay(40, **SMALL)
    network.run(10 * PERIOD)
    for me, protocol in network.nodes.items():
        assert sorted(network.views[me]) == sorted(protocol.neighbors())


def test_same_seed_same_run():
    runs = []
    for seed in (3, 3, 4):
        network = overlay(20, seed=seed, **SMALL)
        network.run(5 * PERIOD)
        runs.append(network.transcript)
    assert runs[0] == runs[1] != runs[2]
