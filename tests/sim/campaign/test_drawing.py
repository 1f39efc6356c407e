"""What is drawn: everything that is named in the docs, from the seed alone."""

import pytest

from epicast.sim.campaign import draw_plan
from epicast.sim.campaign.drawing import TROUBLE_ENDS_NS
from epicast.sim.campaign.drawing_faults import CHAIN_KINDS, KINDS

PLANS = [draw_plan(seed) for seed in range(400)]
CHAINS = [draw_plan(seed, chains=True) for seed in range(400)]


def test_a_plan_depends_on_its_seed_alone():
    assert draw_plan(5) == draw_plan(5) != draw_plan(6)
    assert draw_plan(5, chains=True) == draw_plan(5, chains=True) != draw_plan(5)


def test_all_kinds_of_trouble_occur():
    faults = [fault for plan in PLANS for fault in plan.faults]
    assert {type(fault).__name__ for fault in faults} == {
        "Cut", "CutEdge", "DiskFull", "Drift", "FlipBit", "Kill", "KillEdge", "Move", "Pause",
        "NoDescriptors", "PauseEdge", "Replace", "RollBack", "Stop", "Truncate", "Weather",
    }  # fmt: skip
    assert len({draw.__name__ for draw in KINDS}) == 14
    assert all(fault.at_ns < fault.until_ns <= TROUBLE_ENDS_NS for fault in faults)
    cuts = [fault for fault in faults if type(fault).__name__ == "Cut"]
    assert {cut.one_way for cut in cuts} == {True, False}
    assert {len(cut.pairs) > 1 for cut in cuts} == {True, False}
    assert sum(not plan.faults for plan in PLANS) < 100


def test_chains_of_all_lengths_and_all_that_can_happen_to_them():
    assert {len(plan.regions) for plan in CHAINS} == {1, 2, 3}
    assert {plan.regions[0].replicas for plan in CHAINS} == {2, 3}
    assert {region.replicas for plan in CHAINS for region in plan.regions} == {1, 2, 3}
    assert all(region.replicas == 1 for plan in PLANS for region in plan.regions)
    faults = [fault for plan in CHAINS for fault in plan.faults]
    names = {type(fault).__name__ for fault in faults}
    assert names >= {"DamageRegion", "NoDescriptors"}
    assert {f.all_but_one for f in faults if type(f).__name__ == "DamageRegion"} == {True, False}
    assert names >= {"CutNodes", "KillCoordination", "KillRegion", "Move", "Replace", "RollBack"}
    assert len({draw.__name__ for draw in CHAIN_KINDS}) == 19
    cuts = [fault for fault in faults if type(fault).__name__ == "CutNodes"]
    assert {cut.one_way for cut in cuts} == {True, False}
    assert {cut.one == "coordination" for cut in cuts} == {True, False}
    assert {fault.replica for fault in faults if type(fault).__name__ == "Kill"} == {0, 1, 2}


@pytest.mark.parametrize("plans", [PLANS, CHAINS], ids=["streams", "chains"])
def test_only_what_no_crash_can_take_away_is_moved(plans):
    moves = [
        (plan, fault) for plan in plans for fault in plan.faults if type(fault).__name__ == "Move"
    ]
    assert len({plan.seed for plan, _ in moves}) > 30
    for plan, move in moves:
        acks = {stream.name: stream.ack for stream in plan.streams}
        on_files = {region.name: region.on_files for region in plan.regions}
        assert acks[move.stream] == "disk" and on_files[move.to]


def test_geoplexes_of_all_shapes_occur():
    assert {len(plan.regions) for plan in PLANS} == {1, 2, 3, 4, 5}
    assert {region.on_files for plan in PLANS for region in plan.regions} == {True, False}
    streams = [stream for plan in PLANS for stream in plan.streams]
    assert {stream.ack for stream in streams} == {"disk", "interval", "memory"}
    policies = {(s.latest_per_key, s.last_n, s.max_age_ms is not None) for s in streams}
    assert policies == {
        (False, None, False), (True, None, False), (False, 40, False), (True, 300, False),
        (False, None, True),
    }  # fmt: skip
    edges = [edge for plan in PLANS for edge in plan.edges]
    assert {edge.kind for edge in edges} == {"agent", "client", "sidecar"}
    publishing = [edge.publishing for edge in edges if edge.publishing is not None]
    assert {each.batch for each in publishing} == {1, 7, 60, 500}
    assert {each.level for each in publishing} == {"", "regions=1"}
    assert {each.repeats for each in publishing} == {True, False}


def test_memory_is_the_most_a_region_without_files_promises():
    for plan in PLANS + CHAINS:
        on_files = {region.name: region.on_files for region in plan.regions}
        assert all(on_files[each.owner] or each.ack == "memory" for each in plan.streams)


def test_faults_can_be_left_out_without_a_change_to_the_others():
    plan = next(plan for plan in PLANS if len(plan.faults) == 4)
    assert plan.without({2, 3}).faults == (plan.faults[0], plan.faults[3])
    assert plan.without(set()) == plan


def test_a_plan_tells_what_it_is():
    plan = next(plan for plan in PLANS if len(plan.faults) == 2)
    told = plan.describe()
    assert told[-1].startswith("fault 2: ")
    assert any(line.startswith("p1: ") for line in told)
    assert plan.geoplex().name == f"campaign-{plan.seed}"
