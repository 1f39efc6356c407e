"""Claims S2 and S3: smoke runs, and verdicts that can go either way."""

from pathlib import Path
from typing import Any

import pytest

from epicast.experiments.executor import InlineExecutor
from epicast.experiments.model import Experiment, Scale
from epicast.experiments.results import Results
from epicast.experiments.sprinkler_fanout import SprinklerFanout
from epicast.experiments.sprinkler_load import OUR_RATE, SprinklerLoad
from epicast.experiments.sprinkler_region import PAPER_RATE
from epicast.experiments.sweep import run_sweep


def smoke(experiment: Experiment, directory: Path) -> Results:
    sweep = run_sweep(experiment, Scale.SMOKE, 1, directory, InlineExecutor())
    assert not sweep.failures, sweep.failures[0].error
    return sweep.results


def holds(experiment: Experiment, results: Results) -> bool:
    (claim,) = experiment.claims(results)
    return claim.holds


def test_smoke_of_fanout(tmp_path: Path) -> None:
    results = smoke(SprinklerFanout(), tmp_path)
    assert len(results) == 4
    load = 3 * PAPER_RATE
    assert all(0.3 * load < rate < 1.2 * load for rate in results.numbers("delivered_per_s"))
    slow, fast = (
        results.where(fanout=2, shuffle_ms=shuffle).numbers("latency_ms")[0]
        for shuffle in (300.0, 30.0)
    )
    assert slow > fast
    (claim,) = SprinklerFanout().claims(results)
    assert claim.id == "S2"
    names = [plot.name for plot in SprinklerFanout().plots(results)]
    assert names == ["by_fanout", "by_shuffle"]


def test_smoke_of_load(tmp_path: Path) -> None:
    results = smoke(SprinklerLoad(), tmp_path)
    for maximum in (PAPER_RATE, OUR_RATE):
        latencies = results.where(maximum=maximum).numbers("latency_ms")
        assert latencies[0] < latencies[-1]
    (claim,) = SprinklerLoad().claims(results)
    assert claim.id == "S3"
    names = [plot.name for plot in SprinklerLoad().plots(results)]
    assert names == ["latency", "latency_by_origin"]


def fanout_rows(rates: dict[tuple[int, float], float]) -> Results:
    rows = [
        {"rate": PAPER_RATE, "fanout": fanout, "shuffle_ms": shuffle, "agents": 1000,
         "complete_per_s": rate * 1e6, "delivered_per_s": rate * 1e6}
        for (fanout, shuffle), rate in rates.items()
    ]  # fmt: skip
    return Results(Scale.PAPER, rows)


PAPER_SHAPE = {(2, 30.0): 2.3, (4, 30.0): 2.6, (8, 30.0): 2.0,
               (2, 300.0): 1.5, (4, 300.0): 2.5, (8, 300.0): 1.9}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, True),
        ({(2, 30.0): 2.65}, True),  # within what noise does
        ({(2, 30.0): 2.8}, False),  # a smaller fanout is better
        ({(8, 30.0): 2.6}, False),  # a larger one is no worse
        ({(2, 300.0): 2.3}, False),  # shuffle time does not matter
    ],
)
def test_verdict_on_fanout(change: dict[tuple[int, float], float], verdict: bool) -> None:
    assert holds(SprinklerFanout(), fanout_rows({**PAPER_SHAPE, **change})) is verdict


def load_rows(latencies: list[float], kept: list[float]) -> Results:
    rows: list[dict[str, Any]] = [
        {"fanout": 4, "maximum": PAPER_RATE, "sixths": sixths, "agents": 1000,
         "load_per_s": PAPER_RATE * sixths / 2, "delivered_per_s": PAPER_RATE * sixths / 2 * share,
         "latency_ms": latency, "latency_0_ms": latency, "latency_1_ms": latency,
         "latency_2_ms": latency}
        for sixths, latency, share in zip((1, 5, 11), latencies, kept, strict=True)
    ]  # fmt: skip
    return Results(Scale.PAPER, rows)


@pytest.mark.parametrize(
    ("latencies", "kept", "verdict"),
    [
        ([80, 200, 900], [1.0, 1.0, 0.5], True),  # slow only where it is saturated
        ([80, 320, 900], [1.0, 1.0, 0.5], False),
        ([80, 200, 250], [0.5, 1.0, 1.0], False),  # saturated from the start
    ],
)
def test_verdict_on_load(latencies: list[float], kept: list[float], verdict: bool) -> None:
    assert holds(SprinklerLoad(), load_rows(latencies, kept)) is verdict


def test_the_knee_is_the_last_load_that_is_delivered() -> None:
    (claim,) = SprinklerLoad().claims(load_rows([80, 200, 900], [1.0, 0.95, 0.5]))
    assert "keeps up to 2.16 M events/s of 4.75 M, 80, 200 ms until then" in claim.ours
