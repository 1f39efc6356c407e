"""Runs drawn from seeds: whatever goes wrong, nothing acknowledged is lost, nobody gets anything
twice or out of order, and in the end everybody has everything. A failure prints how to replay it.
"""

import subprocess
import sys

import pytest

from epicast.core import Trace
from tests.protocols.sprinkler.chaos import Chaos

SEEDS = range(100, 136)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_whatever_happens(seed: int) -> None:
    world = Chaos(seed).run()
    assert world.auditor.acknowledged > 0


def test_a_seed_is_one_run() -> None:
    digests = set()
    for _ in range(2):
        trace = Trace(keep=False)
        Chaos(7, trace).run()
        digests.add(trace.digest())
    assert len(digests) == 1


def test_a_run_does_not_depend_on_how_python_hashes() -> None:
    script = (
        "from epicast.core import Trace\n"
        "from tests.protocols.sprinkler.chaos import Chaos\n"
        "trace = Trace(keep=False)\n"
        "Chaos(103, trace).run()\n"
        "print(trace.digest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1
