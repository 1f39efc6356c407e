"""The EpTO experiments: what they measure is right, and they would notice if EpTO were not."""

import numpy as np
import pytest

from epicast.experiments.epto_order import EptoOrder
from epicast.experiments.epto_stress import EptoChurn
from epicast.experiments.model import Scale
from epicast.experiments.ordered_rounds import OrderedSystem, Setting, _longest_ascending
from epicast.experiments.registry import default_registry
from epicast.experiments.results import Results

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


def row(**values: object) -> dict[str, object]:
    usual = {
        "processes": 100, "rate": 0.5, "clock": "global", "events": 10, "holes": 0,
        "violations": 0, "spontaneous_best": 0.3, "delay": 300.0, "unordered_delay": 100.0,
        "delay_p95": 330.0, "unordered_delay_p95": 150.0,
    }  # fmt: skip
    return usual | values


def test_claims_do_not_hold_where_they_should_not() -> None:
    good = [row(), row(clock="logical", delay=400.0)]
    experiment = EptoOrder()

    def verdicts(*changed: dict[str, object]) -> list[bool]:
        rows = Results(Scale.PAPER, [*good, *changed])  # type: ignore[list-item]
        return [claim.holds for claim in experiment.claims(rows)]

    assert verdicts() == [True, True, True]
    assert verdicts(row(spontaneous_best=0.6)) == [False, True, True]
    assert verdicts(row(holes=1)) == [True, False, True]
    assert verdicts(row(violations=1)) == [True, False, True]
    assert verdicts(row(clock="logical", delay=700.0)) == [True, True, False]


def test_churn_is_judged_among_stable_processes() -> None:
    found = EptoChurn().run(
        {"churn": 0.3, "clock": "global", "processes": 16, "rounds": 5, "repetition": 0}, 3
    )
    assert found["violations"] == 0 and found["events"]
