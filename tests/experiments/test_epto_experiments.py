"""The EpTO experiments: what they measure is right, and they would notice if EpTO were not."""

import numpy as np
import pytest

from epicast.experiments.epto_order import EptoOrder
from epicast.experiments.epto_stress import EptoChurn, EptoViews
from epicast.experiments.model import Scale
from epicast.experiments.ordered_rounds import OrderedSystem, Setting, _longest_ascending
from epicast.experiments.registry import default_registry

NAMES = (
    "epto-early", "epto-order", "epto-period", "epto-drift", "epto-churn", "epto-views",
    "epto-sequencer", "epto-outage",
)  # fmt: skip


def test_all_six_claims_are_covered_once() -> None:
    registry = default_registry()
    for number in range(1, 7):
        assert registry.covering(f"E{number}").name in NAMES


def test_points_are_distinct() -> None:
    for name in NAMES:
        for scale in Scale:
            points = [tuple(p.items()) for p in default_registry().get(name).points(scale)]
            assert len(points) == len(set(points)), (name, scale)


@pytest.fixture(scope="module")
def system() -> OrderedSystem:
    found = OrderedSystem(Setting(processes=20, rate=0.3, rounds=10), 1)
    found.run()
    return found


def test_a_system_delivers_everything_in_one_order(system: OrderedSystem) -> None:
    assert system.events > 30
    assert set(system.holes().values()) == {0} and system.violations() == 0
    assert (system.delays() > 0).all() and system.delays().mean() > 250
    assert system.delays(ordered=False).mean() < system.delays().mean()
    assert all(share < 1 for share in system.spontaneous_order(5))


def test_the_last_to_hear_of_an_event_completes_it(system: OrderedSystem) -> None:
    for ordered in (True, False):
        logs = system.delivered if ordered else system.heard
        times = {
            (event, node): now
            for node in system.stable
            for now, events in logs[node]
            for event in events.tolist()
        }
        expected = [
            (max(times[event, node] for node in system.stable) - system.published_at[event]) / 1e6
            for event in range(system.events)
        ]
        assert system.completion(ordered=ordered).tolist() == expected


def test_a_round_is_waited_for_beyond_the_paper_unless_told_otherwise() -> None:
    parameters = {"processes": 20, "rate": 0.3, "clock": "global", "rounds": 6, "repetition": 0}
    usual, printed = (
        EptoOrder().run({**parameters, **extra}, 5) for extra in ({}, {"extra_rounds": 0})
    )
    assert isinstance(usual, dict) and isinstance(printed, dict)
    assert usual["unordered_delay"] == printed["unordered_delay"], "the same balls"
    assert 110 < usual["delay"] - printed["delay"] < 140
    assert usual["delay_p1"] < usual["delay_p50"] < usual["delay_p99"] < usual["completion"] * 1.5


def test_views_are_shuffled_as_often_as_the_point_says() -> None:
    found = {}
    for membership in EptoViews.memberships:
        parameters = {"churn": 0.0, "processes": 8, "rounds": 1, "repetition": 0, **membership}
        row = EptoViews().run(parameters, 2)
        assert isinstance(row, dict)
        found[tuple(membership.values())] = row.get("rounds_per_shuffle"), row.get("answered")
    assert found["uniform",] == found["hyparview",] == (None, None)
    assert found["cyclon",][0] == 8 and found["cyclon",][1] > 0.9
    assert found["cyclon", 125][0] == 1 and found["cyclon", 125][1] < 0.5, "answers come too late"


def test_holes_and_violations_are_found(system: OrderedSystem) -> None:
    log = system.delivered[3]
    kept = list(log)
    try:
        now, events = next((now, events) for now, events in log if len(events) > 1)
        at = next(i for i, (_, found) in enumerate(log) if found is events)
        log[at] = (now, events[1:])
        assert system.holes()[3] == 1 and system.violations() == 0
        log[at] = (now, events[::-1])
        assert system.holes()[3] == 0 and system.violations() >= 1
        log[at] = (now, np.append(events, events[-1]))
        assert system.violations() == 1, "delivered twice"
    finally:
        system.delivered[3] = kept


def test_same_seed_same_system() -> None:
    setting = Setting(processes=12, rate=0.3, rounds=4, churn=0.2)
    orders = []
    for _ in range(2):
        found = OrderedSystem(setting, 7, watched=False)
        found.run()
        orders.append({node: found.order(node).tolist() for node in found.delivered})
    assert orders[0] == orders[1] and len(orders[0]) > 12, "some were replaced"


def test_the_longest_ascending_sequence() -> None:
    assert _longest_ascending([3, 1, 2, 5, 4, 9]) == 4
    assert _longest_ascending([3, 2, 1]) == 1


def test_churn_is_judged_among_stable_processes() -> None:
    found = EptoChurn().run(
        {"churn": 0.3, "clock": "global", "processes": 16, "rounds": 5, "repetition": 0}, 3
    )
    assert found["violations"] == 0 and found["events"]
