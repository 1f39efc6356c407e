"""Shorthands for the Cyclon tests."""

from random import Random
from typing import Any

from epicast.core import Peer
from epicast.protocols.catalog import stack_factory
from epicast.protocols.cyclon import Cyclon, CyclonConfig
from epicast.protocols.cyclon.messages import Entry, JoinSwap
from epicast.sim.latency import ConstantLatency
from epicast.sim.simulation import Simulation
from tests.protocols.harness import MS, Network
from tests.protocols.single import Single

ME = 100


def entries(*pairs: tuple[int, int]) -> tuple[Entry, ...]:
    """From (id, age) pairs."""
    return tuple(Entry(Peer(peer), age) for peer, age in pairs)


def node(*view: tuple[int, int], contacts: tuple[int, ...] = (), **settings: Any) -> Single:
    """A started node whose view holds the (id, age) pairs."""
    settings = {"view_size": 4, "shuffle_length": 3, **settings}
    single = Single(Cyclon(Peer(ME), CyclonConfig(**settings), Random(1)))
    single.start(*contacts)
    for entry in entries(*view):
        single.receive(entry.peer.id, JoinSwap(entry))
    return single


def overlay(count: int, gap: int = 50 * MS, seed: int = 1, **settings: Any) -> Network:
    """Nodes 1..count that joined one after the other, all through node 1."""
    network, config = Network(), CyclonConfig(**settings)
    for me in range(1, count + 1):
        network.start(Cyclon(Peer(me), config, Random(seed * 7919 + me)), [1] if me > 1 else [])
        network.run(gap)
    return network


def in_degrees(network: Network) -> dict[int, int]:
    counts = dict.fromkeys(network.nodes, 0)
    for protocol in network.nodes.values():
        for peer in protocol.neighbors():
            if peer in counts:
                counts[peer] += 1
    return counts


def twenty(contact_behind: int, **settings: Any) -> Simulation:
    """Nodes 1 to 20 with small views; each joined a second after the last, by the one so far
    behind it."""
    config = CyclonConfig(view_size=6, shuffle_length=4, **settings)
    simulation = Simulation(7, latency=ConstantLatency(10 * MS))
    factory = stack_factory(["cyclon"], {"cyclon": config})
    for identity in range(1, 21):
        contact = max(1, identity - contact_behind)
        contacts = [simulation.nodes[contact].peer] if identity > 1 else []
        simulation.add_node(factory, contacts, identity)
        simulation.run_for(1000 * MS)
    return simulation
