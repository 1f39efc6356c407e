"""Seeds in which publishers are refused: for which reasons, and what they publish meanwhile."""

from __future__ import annotations

from collections import Counter

import pytest

from epicast.core import NodeId, Publication
from epicast.sim.campaign import CampaignRun, draw_plan
from epicast.sim.campaign.plan import Plan
from epicast.sim.campaign.refusing import is_refusing
from epicast.sim.campaign.running import Kind, plan_of

SEEDS = [seed for seed in range(400) if is_refusing(seed)]


def publishings(plan: Plan):
    return [edge.publishing for edge in plan.edges if edge.publishing is not None]


def test_every_third_ten_of_seeds_refuses_and_no_other():
    assert len(SEEDS) == 130
    assert SEEDS[:11] == [*range(10, 20), 40]
    for seed in range(60):
        plan = draw_plan(seed)
        assert all(bool(each.unsound_share) == is_refusing(seed) for each in publishings(plan))


def test_publishers_are_killed_with_much_on_its_way():
    plans = [draw_plan(seed) for seed in SEEDS]
    everybody = [each for plan in plans for each in publishings(plan)]
    assert {each.burst for each in everybody} == {1, 3, 8}
    assert {each.repeats for each in everybody} == {True, False}
    assert sum(bool(each.forbidden) for each in everybody) > 50
    for plan in plans:
        names = {edge.name for edge in plan.edges if edge.publishing is not None}
        killed = {fault.edge for fault in plan.faults if type(fault).__name__ == "KillEdge"}
        assert names & killed


@pytest.mark.parametrize("kind", ["streams", "chains"])
def test_owners_refuse_for_every_reason(kind: Kind):
    codes: Counter[str] = Counter()
    for seed in range(10, 17):
        run = CampaignRun(plan_of(seed, kind))
        judge = run.world.simulation.on_refuse
        assert judge is not None

        def refused(node: NodeId, publication: Publication, error: str, judge=judge) -> None:
            codes[error.partition(":")[0]] += 1
            judge(node, publication, error)

        run.world.simulation.on_refuse = refused
        verdict = run.run()
        assert not verdict.failure
        assert verdict.refused and verdict.acknowledged
    wanted = {"INVALID", "UNKNOWN_STREAM", "LEVEL", "FORBIDDEN"}
    # What one replica cannot store another may, so owners that are chains say that they are busy.
    assert set(codes) >= (wanted | {"STORAGE"} if kind == "streams" else wanted)
    assert not codes.keys() & {"BUSY", "GAP"}  # which are no answers: publishers try again
