"""Flooding on HyParView, as section 4.2.1 of Matos's dissertation describes it."""

from random import Random
from statistics import median

import pytest

from epicast.core import EventBatch, Peer, Publication, Stack
from epicast.protocols.flood import Flood, FloodConfig
from epicast.protocols.hyparview import HyParView, HyParViewConfig
from tests.protocols.harness import MS, SECOND, Network


def flooding(count: int, view: int) -> Network:
    network = Network()
    config = HyParViewConfig(active_view=view, keep_alive_period_ns=0)
    rng = Random(view)
    for me in range(1, count + 1):
        node = Peer(me)
        seed = view * 1_000_003 + me
        layers = [HyParView(node, config, Random(seed)), Flood(node, FloodConfig(), Random(seed))]
        contacts = [rng.randrange(1, me)] if me > 1 else []
        network.start(Stack(node, Random(seed), layers), contacts)
        network.run(20 * MS)
    network.run(40 * SECOND)
    return network


def publish(network: Network, publisher: int, first: int, count: int) -> None:
    batch = EventBatch.build(publisher, first, [b"x"] * count)
    publication = Publication(publisher, first, batch)
    network.do(publisher, lambda p, fx: p.on_publish(network.now, [publication], fx))
    network.run(SECOND)


def test_flooding_reaches_all_processes_exactly_once():
    network = flooding(60, view=4)
    for publisher, first in ((1, 1), (33, 1), (60, 1), (1, 8)):
        publish(network, publisher, first, 7)
    for batches in network.delivered.values():
        got = sorted((batch.stream, seq) for batch in batches for seq in batch.seqs.tolist())
        wanted = [(1, seq) for seq in range(1, 15)]
        wanted += [(publisher, seq) for publisher in (33, 60) for seq in range(1, 8)]
        assert got == wanted


@pytest.mark.parametrize(("view", "more_than"), [(4, 1), (10, 7)])
def test_figure_4_3_half_of_the_processes_get_more_duplicates_than(view, more_than):
    """Claim B1 in small: 128 processes for 512, 10 messages for 500."""
    network = flooding(128, view)
    for first in range(1, 11):
        publish(network, 1 + first * 7, 1, 1)
    counts = [stack.statistics()["flood.duplicates"] / 10 for stack in network.nodes.values()]
    assert more_than < median(counts) < more_than + 3


def test_flooding_goes_on_after_failures():
    network = flooding(60, view=5)
    for victim in Random(2).sample(range(2, 61), 30):
        network.kill(victim)
    network.run(20 * SECOND)
    publish(network, 1, 1, 5)
    assert all([b.last for b in network.delivered[me]] == [5] for me in network.nodes)
