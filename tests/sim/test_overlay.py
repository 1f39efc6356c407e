"""Overlay metrics against networkx, and against what is known of simple shapes."""

from random import Random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.sim import overlay as module
from epicast.sim.overlay import Overlay

VIEWS = st.integers(1, 14).flatmap(
    lambda n: st.dictionaries(
        st.integers(0, n), st.lists(st.integers(0, n), max_size=6), min_size=1
    )
)


def graph_of(views: dict[int, list[int]]) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(views)
    graph.add_edges_from(
        (node, peer) for node in views for peer in views[node] if peer in views and peer != node
    )
    return graph


def random_views(nodes: int, links: int, seed: int) -> dict[int, list[int]]:
    rng = Random(seed)
    ids = [rng.getrandbits(64) for _ in range(nodes)]
    return {node: rng.choices(ids, k=links) for node in ids}


def check_against_networkx(views: dict[int, list[int]]) -> None:
    metrics = Overlay.from_views(views).measure()
    graph = graph_of(views)
    flat = graph.to_undirected()
    size = len(graph)
    assert (metrics.nodes, metrics.links) == (size, graph.number_of_edges())
    assert metrics.connected == nx.is_connected(flat)
    weak = max(map(len, nx.connected_components(flat)))
    assert metrics.largest_component == weak / size
    assert metrics.strongly_connected == nx.is_strongly_connected(graph)
    strong = max(map(len, nx.strongly_connected_components(graph)))
    assert metrics.largest_strong_component == strong / size
    assert metrics.clustering == pytest.approx(nx.average_clustering(flat))
    for ours, theirs in (
        (metrics.out_degree, graph.out_degree),
        (metrics.in_degree, graph.in_degree),
    ):
        degrees = [degree for _, degree in theirs]
        assert ours.mean == pytest.approx(np.mean(degrees))
        assert ours.deviation == pytest.approx(np.std(degrees))
        assert ours.median == np.median(degrees)
        assert (ours.minimum, ours.maximum) == (min(degrees), max(degrees))
        assert ours.histogram == {d: degrees.count(d) for d in sorted(set(degrees))}
    lengths = [
        length
        for _, found in nx.all_pairs_shortest_path_length(graph)
        for length in found.values()
        if length
    ]
    assert metrics.paths.exact
    assert metrics.paths.sources == size
    assert metrics.paths.mean == pytest.approx(np.mean(lengths) if lengths else 0)
    assert metrics.paths.diameter == max(lengths, default=0)
    pairs = size * (size - 1)
    assert metrics.paths.reachable == pytest.approx(len(lengths) / pairs if pairs else 1)
    mutual = sum(graph.has_edge(b, a) for a, b in graph.edges)
    edges = graph.number_of_edges()
    assert metrics.symmetric == pytest.approx(mutual / edges if edges else 1)


@settings(max_examples=150, deadline=None)
@given(VIEWS)
def test_small_graphs_of_any_shape(views):
    check_against_networkx(views)


@pytest.mark.parametrize(("nodes", "links"), [(300, 1), (300, 2), (200, 12)])
def test_random_graphs_with_wide_ids(nodes, links):
    check_against_networkx(random_views(nodes, links, seed=links))


def test_more_sources_than_bits_in_a_word():
    check_against_networkx({node: [(node + 1) % 130] for node in range(130)})


def test_triangles_are_counted_the_same_in_any_portions(monkeypatch):
    views = random_views(60, 10, seed=3)
    whole = Overlay.from_views(views).clustering()
    for portion in (1, 2, 7, 100):
        monkeypatch.setattr(module, "_WEDGES_AT_ONCE", portion)
        assert Overlay.from_views(views).clustering() == whole


def test_links_to_missing_nodes_are_counted_and_left_out():
    metrics = Overlay.from_views({1: [2, 99], 2: [1, 0, 2**64 - 1]}).measure()
    assert metrics.dangling == 3
    assert metrics.links == 2
    assert metrics.connected


def test_repeated_links_and_loops_are_dropped():
    metrics = Overlay.from_views({1: [2, 2, 1], 2: [1]}).measure()
    assert (metrics.links, metrics.symmetric) == (2, 1.0)


def test_ids_are_64_bits_wide():
    top = 2**64 - 1
    overlay = Overlay.from_views({top: [0], 0: [top]})
    assert overlay.ids.tolist() == [0, top]
    assert overlay.measure().strongly_connected


def test_no_nodes_at_all():
    metrics = Overlay.from_views({}).measure()
    assert metrics.nodes == metrics.links == 0
    assert metrics.connected
    assert metrics.largest_component == 0
    assert metrics.paths.reachable == 1


def test_ring_and_complete_graph():
    ring = {node: [(node + 1) % 10, (node - 1) % 10] for node in range(10)}
    metrics = Overlay.from_views(ring).measure()
    assert metrics.paths.diameter == 5
    assert metrics.clustering == 0
    complete = {node: [peer for peer in range(6) if peer != node] for node in range(6)}
    metrics = Overlay.from_views(complete).measure()
    assert (metrics.clustering, metrics.paths.mean) == (1, 1)


def test_one_way_chain_is_connected_but_not_strongly():
    metrics = Overlay.from_views({1: [2], 2: [3], 3: []}).measure()
    assert metrics.connected
    assert not metrics.strongly_connected
    assert metrics.largest_strong_component == pytest.approx(1 / 3)
    assert metrics.paths.reachable == 0.5


def test_largest_strong_component_is_found_behind_a_busier_one():
    """The pivot with the most links lies in the smaller of two cycles."""
    views = {0: [1, 2, 3, 10], 1: [0], 2: [0], 3: [0]}
    views |= {node: [node + 1] for node in range(10, 20)}
    views[20] = [10]
    overlay = Overlay.from_views(views)
    assert overlay.largest_strong_component() == 11
    check_against_networkx(views)


def test_large_graph_is_measured_from_a_seeded_sample_and_says_so(monkeypatch):
    views = random_views(400, 6, seed=9)
    exact = Overlay.from_views(views).path_lengths()
    monkeypatch.setattr(module, "EXACT_NODES", 399)
    sampled = Overlay.from_views(views).path_lengths(seed=1, sample_sources=100)
    assert (sampled.exact, sampled.sources) == (False, 100)
    assert sampled.mean == pytest.approx(exact.mean, rel=0.02)
    assert sampled.diameter <= exact.diameter
    assert sampled == Overlay.from_views(views).path_lengths(seed=1, sample_sources=100)
    assert sampled != Overlay.from_views(views).path_lengths(seed=2, sample_sources=100)


def test_sampled_paths_follow_the_direction_of_links(monkeypatch):
    """Everybody is reached from node 0 and reaches nobody."""
    monkeypatch.setattr(module, "EXACT_NODES", 100)
    star = {0: list(range(1, 400))} | {node: [] for node in range(1, 400)}
    paths = Overlay.from_views(star).path_lengths(seed=1, sample_sources=50)
    assert paths.reachable in (0, pytest.approx(1 / 50))  # whether or not 0 is in the sample


def test_order_of_nodes_and_neighbours_does_not_matter():
    views = random_views(50, 5, seed=4)
    shuffled = {node: views[node][::-1] for node in reversed(views)}
    assert Overlay.from_views(views).measure() == Overlay.from_views(shuffled).measure()


def test_twenty_thousand_nodes():
    """Large enough that anything quadratic, in time or memory, would be felt."""
    metrics = Overlay.from_views(random_views(20_000, 5, seed=5)).measure()
    assert metrics.connected
    assert metrics.largest_strong_component > 0.98
    assert not metrics.paths.exact
    assert 5 < metrics.paths.mean < 8
    assert metrics.clustering < 0.01
