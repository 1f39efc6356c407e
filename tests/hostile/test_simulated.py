"""No hostile message does harm to a simulated system: see the package for what that means.

`EPICAST_HOSTILE` is how many messages there are altogether, over all kinds of nodes and senders; a
storm that fails says how it is repeated.
"""

from __future__ import annotations

import os

import pytest

from tests.hostile.storm import PER_STORM, Found, Storm, System
from tests.hostile.systems import STORMS, SYSTEMS
from tests.hostile.warming import warm_up

MESSAGES = int(os.environ.get("EPICAST_HOSTILE", "20000"))
WEIGHTS = sum(kind.weight for kind, _ in STORMS)


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    warm_up()


def test_a_storm_runs_the_same_way_each_time() -> None:
    storms = [Storm(SYSTEMS["geoplex"], "client", 3, 300) for _ in range(2)]
    for storm in storms:
        storm.run()
    first, second = storms
    assert first.sent == second.sent and first.attacker.counts == second.attacker.counts
    assert first.system.simulation.drops == second.system.simulation.drops


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("kind", "sender"), STORMS, ids=[f"{kind.__name__}-{sender}" for kind, sender in STORMS]
)
def test_no_message_does_harm(kind: type[System], sender: str) -> None:
    left = -(-MESSAGES * kind.weight // WEIGHTS)
    found: dict[str, str] = {}
    seed = 0
    while left > 0:
        seed += 1
        storm = Storm(kind, sender, seed, min(PER_STORM, left))
        left -= storm.messages
        try:
            storm.run()
        except Found as error:
            found.setdefault(error.place, str(error))
        if seed == 1 and storm.messages == PER_STORM:
            _check_spread(storm)
    assert not found, "\n\n".join(found.values())


def _check_spread(storm: Storm) -> None:
    """Check that all kinds of nodes were attacked, mostly with messages that they handle."""
    kinds = {name for name, _ in storm.sent}
    assert kinds == {type(node.protocol).__name__ for node in storm.system.targets()}
    assert storm.sent.total() > PER_STORM // 2
