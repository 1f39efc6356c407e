"""Random systems under random trouble: nothing breaks, and what is published afterwards arrives.

`make sim` runs thousands of seeds; these are the ones every change is held to.
"""

import pytest

from epicast.sim.swarm import draw_scenario, run_seed

SEEDS = range(0, 208)
CHUNK = 4


@pytest.mark.parametrize("first", SEEDS[::CHUNK])
def test_swarm(first):
    results = map(run_seed, range(first, first + CHUNK))
    failures = [result.failure for result in results if result.failure]
    assert not failures, "\n\n".join(failures)


def test_most_seeds_have_faults_and_all_kinds_occur():
    drawn = [draw_scenario(seed).scenario for seed in SEEDS]
    assert sum(bool(each.faults or each.churn) for each in drawn) > 170
    kinds = {fault.__class__.__name__ for each in drawn for fault in each.faults}
    assert kinds == {"Crash", "CutLink", "Drift", "Leave", "Partition", "Pause", "Weather"}
    assert len({each.nodes for each in drawn}) > 15
    assert {each.workload[0].batch for each in drawn} == {1, 7, 50}


def test_a_scenario_depends_on_its_seed_alone():
    assert draw_scenario(5) == draw_scenario(5) != draw_scenario(6)
