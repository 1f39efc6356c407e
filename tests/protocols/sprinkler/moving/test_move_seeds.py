"""Moves under whatever can happen: see `moved` and `forced`."""

import pytest

from epicast.core import Trace
from tests.protocols.sprinkler.moving.forced import ForcedRun
from tests.protocols.sprinkler.moving.moved import MovedRun


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_and_nobody_notices_when_streams_are_handed_over(seed: int) -> None:
    assert MovedRun(seed).run().acknowledged


def test_streams_are_moved_in_these_runs() -> None:
    run = MovedRun(1)
    run.run()
    assert run.moves


@pytest.mark.parametrize("seed", range(4))
def test_everybody_gets_one_reset_when_a_stream_is_taken_by_force(seed: int) -> None:
    run = ForcedRun(seed)
    run.run()
    run.check_restarts()
    assert run.lost() >= run.shown_behind_the_cut()


def test_a_seed_is_one_run() -> None:
    digests = set()
    for _ in range(2):
        trace = Trace(keep=False)
        ForcedRun(1, trace).run()
        digests.add(trace.digest())
    assert len(digests) == 1
