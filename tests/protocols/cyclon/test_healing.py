"""Two sides that forgot each other find together again."""

from epicast.protocols.catalog import stack_factory
from epicast.protocols.cyclon import CyclonConfig
from epicast.sim.checkers import overlay
from epicast.sim.latency import ConstantLatency
from epicast.sim.simulation import Simulation

SECOND = 1_000_000_000


def split_and_mend(contact_every: int) -> Simulation:
    config = CyclonConfig(
        view_size=6, shuffle_length=4, shuffle_period_ns=SECOND, contact_every=contact_every
    )
    simulation = Simulation(7, latency=ConstantLatency(10_000_000))
    factory = stack_factory(["cyclon"], {"cyclon": config})
    for identity in range(1, 21):
        contacts = [simulation.nodes[max(1, identity - 3)].peer] if identity > 1 else []
        simulation.add_node(factory, contacts, identity)
        simulation.run_for(SECOND)

    def between_odd_and_even(source: int, target: int) -> bool:
        return source % 2 != target % 2

    simulation.network.cut(between_odd_and_even)
    simulation.run_for(60 * SECOND)
    assert not overlay(simulation).measure().connected, "the split outlasts every view"
    simulation.network.mend(between_odd_and_even)
    simulation.run_for(60 * SECOND)
    return simulation


def test_contacts_join_the_sides_of_a_mended_split() -> None:
    assert overlay(split_and_mend(contact_every=20)).measure().connected


def test_without_them_the_sides_stay_apart() -> None:
    """What the deviation is for: the paper's protocol never finds together again."""
    assert not overlay(split_and_mend(contact_every=0)).measure().connected
