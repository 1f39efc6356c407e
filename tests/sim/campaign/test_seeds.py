"""Geoplexes under trouble: nothing acknowledged is lost, and in the end everybody has everything.

`epicast swarm` runs thousands of seeds; these are the ones every change is held to.
"""

import os
import subprocess
import sys

import pytest

from epicast.core import Trace
from epicast.sim.campaign import CampaignRun, kind_of, run_seed
from epicast.sim.campaign.running import Kind, plan_of

SEEDS = [seed for seed in range(40) if kind_of(seed) != "membership"]
CHUNK = 4


@pytest.mark.parametrize("first", range(0, len(SEEDS), CHUNK))
def test_streams_survive(first):
    failures = [run_seed(seed).failure for seed in SEEDS[first : first + CHUNK]]
    assert not any(failures), "\n\n".join(filter(None, failures))


@pytest.mark.parametrize("seed", [274, 325, 912, 1072, 1915, 2538, 2830, 3236, 3437, 6378])
def test_seeds_that_once_failed(seed):
    assert not run_seed(seed, "streams").failure


@pytest.mark.parametrize(
    "seed", [10, 22, 267, 557, 595, 597, 1013, 1653, 2977, 5045, 5363, 933, 1181]
)
def test_chains_that_once_failed(seed):
    assert not run_seed(seed, "chains").failure


@pytest.mark.parametrize("kind", ["streams", "chains"])
def test_much_happens_in_a_run(kind):
    verdict = CampaignRun(plan_of(17, kind)).run()
    assert not verdict.failure
    assert verdict.acknowledged > 100
    assert verdict.delivered > verdict.acknowledged
    assert verdict.messages > 1000
    assert verdict.simulated_s > 8


def test_a_tenth_of_all_seeds_is_about_membership_and_nearly_half_about_chains():
    kinds = [kind_of(seed) for seed in range(1000)]
    assert kinds.count("membership") == 100
    assert kinds.count("chains") == 400
    assert kinds.count("streams") == 500


def digest_of(seed: int, kind: Kind) -> str:
    trace = Trace(keep=False)
    assert not CampaignRun(plan_of(seed, kind), trace).run().failure
    return trace.digest()


@pytest.mark.parametrize("kind", ["streams", "chains"])
def test_a_seed_is_one_run(kind):
    assert digest_of(7, kind) == digest_of(7, kind) != digest_of(8, kind)


def test_a_run_does_not_depend_on_how_python_hashes():
    script = (
        "from tests.sim.campaign.test_seeds import digest_of\n"
        "print(digest_of(6, 'streams'), digest_of(6, 'chains'))\n"
    )  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1
