"""Shorthands for the HyParView tests."""

from random import Random
from typing import Any

from epicast.core import Peer
from epicast.protocols.hyparview import HyParView, HyParViewConfig
from epicast.protocols.hyparview.messages import Neighbor, Shuffle
from tests.protocols.harness import MS, Network
from tests.protocols.single import Single

ME = 100


def node(**settings: Any) -> Single:
    return Single(HyParView(Peer(ME), HyParViewConfig(**settings), Random(1)))


def peers(*ids: int) -> tuple[Peer, ...]:
    return tuple(map(Peer, ids))


def node_with(active: int, passive: tuple[int, ...] = (), **settings: Any) -> Single:
    """A started node with the neighbours 1, 2, … and the given reserve, and nothing under way."""
    single = node(**settings)
    single.start()
    for neighbor in range(1, active + 1):
        single.receive(neighbor, Neighbor(Peer(neighbor), high_priority=True))
    for peer in passive:
        single.receive(1, Shuffle(Peer(1), 0, peers(peer)))
    return single


def overlay(count: int, contacts: str = "random", gap: int = 50 * MS, seed: int = 1,
            **settings: Any) -> Network:  # fmt: skip
    """Nodes 1..count that joined one after the other."""
    network, rng = Network(), Random(seed)
    config = HyParViewConfig(**settings)
    for me in range(1, count + 1):
        contact = [1] if contacts == "one" else [rng.randrange(1, me)] if me > 1 else []
        protocol = HyParView(Peer(me), config, Random(seed * 1_000_003 + me))
        network.start(protocol, contact if me > 1 else [])
        network.run(gap)
    return network


def asymmetric(network: Network) -> list[tuple[int, int]]:
    """Links one end does not know of, and links to nodes that are gone."""
    views = {me: protocol.neighbors() for me, protocol in network.nodes.items()}
    return [(me, peer) for me in views for peer in views[me] if me not in views.get(peer, ())]


def pieces(network: Network) -> int:
    """How many parts the overlay falls into."""
    unseen, count = set(network.nodes), 0
    while unseen:
        count += 1
        todo = [unseen.pop()]
        while todo:
            found = unseen.intersection(network.nodes[todo.pop()].neighbors())
            unseen -= found
            todo += found
    return count
