"""The gossip experiments at smoke scale: they run, judge, and would notice if it were otherwise."""

from epicast.experiments.gossip_rounds import RoundSystem, paper_config, ring_views, uniform_views
from epicast.experiments.lpbcast_purging import LpbcastPurging, throughput
from epicast.experiments.model import Scale
from epicast.experiments.registry import default_registry
from epicast.experiments.results import Results
from epicast.protocols.lpbcast import Lpbcast

NAMES = (
    "gossip-memory",
    "lpbcast-membership",
    "lpbcast-partition",
    "lpbcast-purging",
    "lpbcast-rounds",
    "lpbcast-views",
    "pbcast-comparison",
)


def test_all_nine_claims_are_covered_once():
    registry = default_registry()
    for number in range(1, 10):
        assert registry.covering(f"L{number}").name in NAMES


def test_points_are_distinct_and_larger_scales_larger():
    for name in NAMES:
        experiment = default_registry().get(name)
        for scale in Scale:
            points = [tuple(sorted(point.items())) for point in experiment.points(scale)]
            assert len(points) == len(set(points)), (name, scale)


def system(**changes):
    config = paper_config(view_size=6, max_events=50, **changes)
    return RoundSystem(
        lambda peer, rng: Lpbcast(peer, config, rng), 30, 1, views=uniform_views(30, 6, 1)
    )


def test_a_system_counts_who_had_an_event_when():
    found = system()
    found.run(3)
    found.run(4, 1)
    found.run(10)
    assert len(found.published) == 4
    for event in found.published:
        infected = found.infected(event, 12)
        assert infected[0] == 1
        assert infected == sorted(infected)
        assert infected[1] <= 4  # three others at most
        assert infected[-1] == found.reached(event) == 30


def test_same_seed_same_system():
    runs = []
    for _ in range(2):
        found = system(aligned_rounds=False)
        found.run(6, 2, at_once=False)
        runs.append((found.deliveries, found.simulation.network.sent))
    assert runs[0] == runs[1]


def test_crashed_nodes_are_not_owed_anything():
    found = system()
    found.run(2)
    found.crash(0.2)
    assert found.alive == 24
    event = found.publish()
    found.run(14)
    assert found.reached(event) == 24


def test_a_ring_knows_its_neighbours():
    views = ring_views(5)
    assert [peer.id for peer in views(1)] == [2, 5]
    assert [peer.id for peer in views(5)] == [1, 4]


def _rows(purging, stable, delivery, failures=False):
    return [
        {"purging": purging, "rate": rate, "stable": share, "delivery": delivery[rate],
         "redundant": 0.5 if purging == "age" else 0.6, "failures": failures}
        for rate, share in stable.items()
    ]  # fmt: skip


def test_throughput_is_where_stability_crosses_the_bar():
    rows = _rows("age", {4.0: 1.0, 12.0: 0.8, 30.0: 0.1}, dict.fromkeys((4.0, 12.0, 30.0), 1.0))
    assert throughput(Results(Scale.SMOKE, rows), "age") == 8.0


def test_claims_of_purging_follow_the_results():
    good = dict.fromkeys((4.0, 12.0, 30.0), 0.99)
    poor = {4.0: 0.98, 12.0: 0.7, 30.0: 0.6}
    random = _rows("random", {4.0: 0.8, 12.0: 0.5, 30.0: 0.1}, poor)
    age = _rows("age", {4.0: 1.0, 12.0: 0.95, 30.0: 0.1}, good)
    failing = _rows("age", {30.0: 0.0}, good, True) + _rows("random", {30.0: 0.0}, poor, True)
    holds = LpbcastPurging().claims(Results(Scale.SMOKE, random + age + failing))
    assert [claim.holds for claim in holds] == [True, True]
    swapped = {"age": "random", "random": "age"}
    rows = [{**row, "purging": swapped[str(row["purging"])]} for row in random + age + failing]
    denied = LpbcastPurging().claims(Results(Scale.SMOKE, rows))
    assert [claim.holds for claim in denied] == [False, False]


def test_analysis_and_simulation_agree_at_smoke_scale():
    experiment = default_registry().get("lpbcast-rounds")
    point = next(p for p in experiment.points(Scale.SMOKE) if p["figure"] == "fanout")
    rows = experiment.run(point, 1)
    assert abs(rows[0]["simulated_rounds"] - rows[0]["computed_rounds"]) < 1
    assert max(abs(row["simulated"] - row["computed"]) for row in rows) < 0.25


def test_partition_reports_the_number_it_computed():
    experiment = default_registry().get("lpbcast-partition")
    rows = [
        {**point, **row}
        for point in experiment.points(Scale.SMOKE)
        for row in experiment.run(point, 1)
    ]
    [claim] = experiment.claims(Results(Scale.SMOKE, rows))
    assert claim.id == "L2"
    assert claim.ours.startswith("1.84e+17")
    assert not claim.holds
