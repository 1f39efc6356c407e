"""Claims S5, S6 and S7: what is measured agrees with counting, and verdicts can go either way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epicast.experiments.executor import InlineExecutor
from epicast.experiments.gc_saving import GcSaving
from epicast.experiments.key_ages import KeyAges
from epicast.experiments.key_workload import KeyWorkload
from epicast.experiments.model import Claim, Experiment, Scale
from epicast.experiments.results import Results
from epicast.experiments.sweep import run_sweep


def smoke(experiment: Experiment, directory: Path) -> Results:
    sweep = run_sweep(experiment, Scale.SMOKE, 1, directory, InlineExecutor())
    assert not sweep.failures
    return sweep.results


@pytest.fixture(scope="module")
def savings(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return smoke(GcSaving(), tmp_path_factory.mktemp("gc-saving"))


@pytest.fixture(scope="module")
def ages(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return smoke(KeyAges(), tmp_path_factory.mktemp("key-ages"))


def changed(results: Results, change: Callable[[dict[str, Any]], None]) -> Results:
    rows = [dict(row) for row in results]
    for row in rows:
        change(row)
    return Results(results.scale, rows)


def verdicts(claims: list[Claim]) -> dict[str, bool]:
    return {claim.id: claim.holds for claim in claims}


@pytest.mark.parametrize("model", ["zeta", "zipf"])
def test_history_stores_one_event_per_key(model: str) -> None:
    point = {"model": model, "skew": 1.1, "rate": 100, "insertions": "stored", "events": 12_345}
    rows = GcSaving().run(point, seed=5)
    assert [row["generated"] for row in rows] == [1000, 2000, 5000, 10_000, 12_345]
    workload = KeyWorkload(
        keys=None if model == "zeta" else 100_000, skew=1.1, insertions=10, invalidations=100,
        events=12_345 + 5000, seed=5,
    )  # fmt: skip
    keys = np.concatenate([workload.draw(5000).keys for _ in range(3)]).tolist()
    for row in rows:
        assert row["stored"] == len(set(keys[: row["generated"]]))
        assert row["saving"] == 1 - row["stored"] / row["generated"]


def test_silent_insertions_are_not_appended() -> None:
    point = {"model": "zipf", "skew": 1.1, "rate": 1, "insertions": "silent", "events": 2000}
    rows = GcSaving().run(point, seed=5)  # ten insertions per invalidation
    assert [row["generated"] for row in rows] == [1000, 2000]
    assert rows[-1]["stored"] < 2000


def test_savings_of_the_paper(savings: Results) -> None:
    assert verdicts(GcSaving().claims(savings)) == {"S5": True, "S6": True}


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("S5", lambda row: row.update(saving=row["saving"] / 2)),
        ("S5", lambda row: row.update(saving=0.75)),  # the same whatever the skew
        ("S6", lambda row: row.update(saving=1 - (1 - row["saving"]) / 2)),
        ("S6", lambda row: row.update(saving=0.85)),
        (
            "S6",
            lambda row: row.update(saving=row["saving"] - 0.11 * (row["insertions"] == "stored")),
        ),
    ],
)
def test_other_savings_are_not(
    savings: Results, claim: str, change: Callable[[dict[str, Any]], None]
) -> None:
    assert not verdicts(GcSaving().claims(changed(savings, change)))[claim]


def test_every_aged_invalidation_is_counted_once(ages: Results) -> None:
    for skew in ages.distinct("skew"):
        low, high = (
            ages.where(skew=skew, rate=rate).numbers("invalidations") for rate in (50, 200)
        )
        assert sum(low) > 10_000
        assert sum(high) == pytest.approx(4 * sum(low), rel=0.15)
        assert sum(high) < 200 * 1000


def test_ages_of_the_paper(ages: Results) -> None:
    assert verdicts(KeyAges().claims(ages)) == {"S7": True}


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.update(per_tick=1e5 / row["age"]),  # no steeper, no higher
        lambda row: row.update(per_tick=row["age"] ** row["skew"] * row["rate"]),  # rises
        lambda row: row.update(per_tick=row["age"] ** -row["skew"] / row["rate"]),  # lower
        lambda row: row.update(per_tick=row["age"] ** (row["skew"] - 3) * row["rate"]),  # flatter
        lambda row: row.update(per_tick=row["rate"] * (2 - row["age"] ** 9 / 1e20)),  # no power
    ],
)
def test_other_ages_are_not(ages: Results, change: Callable[[dict[str, Any]], None]) -> None:
    assert verdicts(KeyAges().claims(changed(ages, change))) == {"S7": False}


def test_plots(savings: Results, ages: Results) -> None:
    assert [plot.name for plot in GcSaving().plots(savings)] == ["stored_zeta", "stored_zipf"]
    assert [plot.name for plot in KeyAges().plots(ages)] == ["key_ages"]
