"""What `bench swarm` compares is the same but for the oracles."""

import pytest

from bench import bench_swarm
from epicast.sim.campaign import draw_plan
from epicast.sim.campaign.oracles import Oracles
from epicast.sim.campaign.world import World


@pytest.mark.parametrize("seed", [3, 16])
def test_whether_they_are_judged_makes_no_difference_to_runs(seed: int) -> None:
    sent = []
    for oracles in (Oracles, bench_swarm.Unjudged):
        simulation = World(draw_plan(seed), judged_by=oracles).simulation
        simulation.run_until(bench_swarm.END_NS)
        sent.append((simulation.network.sent, simulation.delivered_events))
    assert sent[0] == sent[1]
    assert sent[0][1] > 100


def test_both_ways_run() -> None:
    assert bench_swarm.judged(range(3, 4)) > 0
    assert bench_swarm.unjudged(range(3, 4)) > 0
