"""The verdicts on claims E1 to E6, on rows made up."""

from typing import Any

from epicast.experiments.epto_order import EptoOrder
from epicast.experiments.epto_stress import EptoChurn, EptoPeriod, EptoViews
from epicast.experiments.model import Claim, Experiment, Scale
from epicast.experiments.results import Results
from epicast.experiments.tasks import make_tasks


def judged(experiment: Experiment, rows: list[dict[str, Any]]) -> dict[str, Claim]:
    return {claim.id: claim for claim in experiment.claims(Results(Scale.PAPER, rows))}


# -- E1 to E3 ------------------------------------------------------------------------------------


def row(**values: object) -> dict[str, Any]:
    usual = {
        "processes": 100, "rate": 0.5, "clock": "global", "events": 10, "holes": 0,
        "violations": 0, "spontaneous_best": 0.3, "delay": 300.0, "unordered_delay": 100.0,
        "completion": 320.0, "unordered_completion": 160.0,
        "delay_p95": 330.0, "unordered_delay_p95": 150.0,
    }  # fmt: skip
    return usual | values


GOOD = [row(), row(clock="logical", delay=400.0)]


def order(*changed: dict[str, Any]) -> dict[str, Claim]:
    return judged(EptoOrder(), [*GOOD, *changed])


def verdicts(*changed: dict[str, Any]) -> list[bool]:
    return [claim.holds for claim in order(*changed).values()]


def test_claims_do_not_hold_where_they_should_not() -> None:
    assert verdicts() == [True, True, True]
    assert verdicts(row(spontaneous_best=0.6)) == [False, True, True]
    assert verdicts(row(holes=1)) == [True, False, True]
    assert verdicts(row(violations=1)) == [True, False, True]
    assert verdicts(row(clock="logical", delay=700.0)) == [True, True, False]
    assert verdicts(row(clock="global", delay=700.0)) == [True, True, False]


def test_e2_tells_runs_without_the_added_round_apart_and_does_not_judge_them() -> None:
    printed = row(extra_rounds=0, holes=3, delay=900.0, spontaneous_best=0.9)
    assert verdicts(printed) == [True, True, True]
    claim = order(printed)["E2"]
    assert "0 holes and 0 violations in 2,000 deliveries owed, 2 runs" in claim.ours
    assert "a round added" in claim.ours
    assert "3 holes and 0 violations in 1,000 deliveries owed, 1 runs" in claim.detail
    assert "not judged: not run" in order()["E2"].detail


def test_e3_has_both_baselines_and_judges_the_stricter() -> None:
    slow = row(clock="logical", delay=640.0)
    claim = judged(EptoOrder(), [row(), slow])["E3"]
    assert "(judged): 3.00 x global, 6.40 x logical" in claim.ours
    assert "(not judged): 1.88 x global, 4.00 x logical" in claim.ours
    assert not claim.holds and "in part: 2 to 4 x with a global clock: yes" in claim.detail
    assert "with a logical clock: no" in claim.detail


def test_e3_grows_by_the_factor_of_the_claim() -> None:
    rates = [row(rate=0.01, delay=100.0, unordered_delay=40.0), row(rate=0.1, delay=200.0)]
    claim = order(*rates, row(processes=500, delay=450.0))["E3"]
    assert "from 100 to 500 processes" in claim.ours, "which are five times as many"
    assert "from rate 0.1 to 0.5" in claim.ours, "not from 0.01"
    assert "TTL = lg n implies 1.29 x from 100 to 500 processes (TTL 7 to 9)" in claim.detail


def test_e3_can_do_without_figures_that_older_sweeps_lack() -> None:
    new = ("completion", "unordered_completion")
    rows = [{name: value for name, value in each.items() if name not in new} for each in GOOD]
    claim = judged(EptoOrder(), rows)["E3"]
    assert claim.holds and "not measured global, not measured logical" in claim.ours


def test_distributions_of_delays_are_drawn_for_each_clock_and_size() -> None:
    columns = {
        f"{name}delay_p{p}": float(p) for name in ("", "unordered_")
        for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)
    }  # fmt: skip
    rows = [
        row(rate=rate, clock=clock, processes=n, **columns)
        for rate in (0.1, 0.5) for clock in ("global", "logical") for n in (100, 500)
    ]  # fmt: skip
    plots = {plot.name: plot for plot in EptoOrder().plots(Results(Scale.PAPER, rows))}
    assert set(plots) == {"delay", "delays-global", "delays-logical"}
    lines = plots["delays-global"].figure.axes[0].lines
    assert [line.get_label() for line in lines] == [
        "100 processes, ordered", "100 processes, unordered",
        "500 processes, ordered", "500 processes, unordered",
    ]  # fmt: skip
    assert list(lines[0].get_xdata()) == [1, 5, 10, 25, 50, 75, 90, 95, 99]  # type: ignore[arg-type]
    assert "rate 0.1" in plots["delays-global"].caption


def test_points_that_need_no_new_parameter_keep_their_keys() -> None:
    """So that a sweep begun before `extra_rounds` and `shuffle_ticks` were added is resumed."""
    before = {
        EptoOrder: {"9438be53f7caec2735748ca6", "e048351fee74efd0c525a537"},
        EptoViews: {"43a3a2c688c635706fed6278", "e97753e52239f6667e58f137"},
    }
    for experiment, keys in before.items():
        assert keys <= {task.key for task in make_tasks(experiment(), Scale.SMOKE, 1)}


# -- E4 ------------------------------------------------------------------------------------------


def periods(
    global_holes: tuple[int, ...], logical_holes: tuple[int, ...], violations: int = 0
) -> Claim:
    rows = [
        {
            "period_ticks": period, "clock": clock, "processes": 200, "events": 60_000,
            "holes": holes, "violations": violations,
        }
        for clock, found in (("global", global_holes), ("logical", logical_holes))
        for period, holes in zip((15.0, 28.0, 42.0, 125.0), found, strict=True)
    ]  # fmt: skip
    return judged(EptoPeriod(), rows)["E4"]


def test_e4_needs_holes_that_are_visible_with_one_clock_and_says_which() -> None:
    assert periods((500, 20, 0, 0), (50, 0, 0, 0)).holds
    assert not periods((1, 0, 0, 0), (1, 0, 0, 0)).holds, "one hole in twelve million"
    one = periods((500, 20, 0, 0), (1, 0, 0, 0))
    assert one.holds and "degrades below (global): yes" in one.detail


def test_e4_does_not_hold_if_long_rounds_have_holes_too() -> None:
    assert not periods((500, 20, 13, 0), (50, 0, 0, 0)).holds
    assert periods((500, 20, 1, 0), (50, 0, 0, 0)).holds, "below what is called visible"
    assert not periods((500, 20, 0, 0), (50, 0, 0, 0), violations=1).holds


def test_e4_lists_holes_by_clock_and_period() -> None:
    ours = periods((500, 20, 0, 0), (50, 0, 0, 0)).ours
    assert "global 15: 500 (4.2e-05), 28: 20 (1.7e-06), 42: 0" in ours
    assert "logical 15: 50 (4.2e-06), 28: 0" in ours


# -- E6 ------------------------------------------------------------------------------------------


def churned(stable: float, everyone: float, holes: int = 0) -> Claim:
    rows = [
        {"churn": 0.0, "delay": 828.0, "delay_of_stable": 828.0, "holes": 0, "violations": 0},
        {"churn": 0.1, "delay": everyone, "delay_of_stable": stable, "holes": 0, "violations": 0},
        {"churn": 0.2, "delay": 999.0, "delay_of_stable": 999.0, "holes": holes, "violations": 0},
    ]
    return judged(EptoChurn(), rows)["E6"]


def test_e6_does_not_hold_by_leaving_newcomers_out() -> None:
    assert churned(828.0, 830.0).holds
    claim = churned(828.0, 923.0)
    assert not claim.holds and claim.detail.startswith("in part: ")
    assert "the delay of all events is: no" in claim.detail
    assert "0.1: 828" in claim.ours and "0.1: 923" in claim.ours


def test_e6_does_not_hold_with_delays_or_losses_among_those_that_stay() -> None:
    assert "their events is unnoticed up to 10 %: no" in churned(923.0, 923.0).detail
    assert "up to 20 %: no" in churned(828.0, 830.0, holes=1).detail
