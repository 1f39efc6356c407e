"""Chains under whatever can happen to replicas: see `chained`."""

import pytest

from epicast.core import Trace
from tests.protocols.sprinkler.chain.chained import ChainedRun

SEEDS = (16, 57, 68, 83, 160, 3, 7, 10, 12, 33, 35, 37)
"""The first five have found something."""


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_shown_is_lost_whatever_happens_to_replicas(seed: int) -> None:
    assert ChainedRun(seed).run().acknowledged


def test_a_seed_is_one_run() -> None:
    digests = set()
    for _ in range(2):
        trace = Trace(keep=False)
        ChainedRun(37, trace).run()
        digests.add(trace.digest())
    assert len(digests) == 1
