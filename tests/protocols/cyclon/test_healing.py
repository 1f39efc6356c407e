"""Two sides that forgot each other find together again."""

from epicast.sim.checkers import overlay
from epicast.sim.simulation import Simulation
from tests.protocols.cyclon.nodes import twenty

SECOND = 1_000_000_000


def split_and_mend(contact_every: int) -> Simulation:
    simulation = twenty(3, shuffle_period_ns=SECOND, contact_every=contact_every)

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
