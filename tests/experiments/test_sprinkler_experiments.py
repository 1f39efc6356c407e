"""Claims S2 to S4: smoke runs, and verdicts that can go either way."""

from pathlib import Path
from typing import Any

import pytest

from epicast.experiments.executor import InlineExecutor
from epicast.experiments.model import Experiment, Scale
from epicast.experiments.results import Results
from epicast.experiments.sprinkler_fanout import SprinklerFanout
from epicast.experiments.sprinkler_link_cut import SprinklerLinkCut
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


def test_smoke_of_a_link_cut(tmp_path: Path) -> None:
    results = smoke(SprinklerLinkCut(), tmp_path)
    assert set(results.numbers("missing")) == {0}
    for row in results:
        assert 100 < row["stalled_ms"] <= row["bound_ms"] == 222
    (claim,) = SprinklerLinkCut().claims(results)
    assert claim.id == "S4"
    assert "latency of region 2 spikes: yes" in claim.detail
    assert "region 0 hardly notices: yes" in claim.detail
    names = [plot.name for plot in SprinklerLinkCut().plots(results)]
    assert names == ["throughput", "latency"]


def link_rows(
    outage: list[float],
    far: tuple[float, float, float],
    missing: int = 0,
    near: float = 50.0,
    stalled: float = 900.0,
    link: str = "swallows",
) -> Results:
    """Ten seconds at 100 per second, the link out from 2 to 8. `outage`: what is delivered in each
    half second of it. `far`: latencies of the far region as the link fails, in the end of the
    outage, and after it."""
    rows: list[dict[str, Any]] = []
    for step in range(20):
        t_s = step / 2
        out = 2 <= t_s < 8
        spike, during, afterwards = far
        latency = 50.0 if t_s < 2 else spike if t_s < 4 else during if out else afterwards
        rows.append(
            {"advertise_ms": 1000.0, "link": link, "agents": 2, "cut_s": 2, "mended_s": 8,
             "end_s": 10, "t_s": t_s, "delivered_per_s": outage[step - 4] if out else 100.0,
             "latency_0_ms": near if out else 50.0, "latency_2_ms": latency, "missing": missing,
             "stalled_ms": stalled, "bound_ms": 1000.0}
        )  # fmt: skip
    return Results(Scale.PAPER, rows)


def test_a_link_cut_as_in_the_paper_holds_and_others_do_not() -> None:
    experiment = SprinklerLinkCut()
    usual = [80.0, 80.0, 120.0, 120.0, *[100.0] * 8]
    assert holds(experiment, link_rows(usual, (900.0, 60.0, 50.0)))
    assert not holds(experiment, link_rows([100.0] * 12, (900.0, 60.0, 50.0)))  # no dip
    assert not holds(experiment, link_rows([*usual[:-1], 50.0], (900.0, 60.0, 50.0)))
    assert not holds(experiment, link_rows(usual, (60.0, 60.0, 50.0)))  # no spike
    assert not holds(experiment, link_rows(usual, (900.0, 50.0, 50.0)))  # no other path
    assert not holds(experiment, link_rows(usual, (900.0, 60.0, 60.0)))  # stays on it
    assert not holds(experiment, link_rows(usual, (900.0, 60.0, 50.0), missing=1))
    assert not holds(experiment, link_rows(usual, (900.0, 60.0, 50.0), near=80.0))
    assert not holds(experiment, link_rows(usual, (900.0, 60.0, 50.0), stalled=1001.0))


def test_a_link_cut_has_to_be_survived_in_every_way_and_to_look_like_the_papers_in_one() -> None:
    experiment = SprinklerLinkCut()
    usual = [80.0, 80.0, 120.0, 120.0, *[100.0] * 8]
    alike = [*link_rows(usual, (900.0, 60.0, 50.0))]
    hardly_seen = link_rows([100.0] * 12, (60.0, 60.0, 50.0), link="breaks")
    assert holds(experiment, Results(Scale.PAPER, [*alike, *hardly_seen]))
    for rows in (
        link_rows(usual, (900.0, 60.0, 50.0), link="breaks", missing=1),
        link_rows(usual, (900.0, 60.0, 50.0), link="breaks", stalled=1001.0),
        link_rows([80.0] * 12, (900.0, 60.0, 50.0), link="breaks"),  # less comes to the end
    ):
        assert not holds(experiment, Results(Scale.PAPER, [*alike, *rows]))


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
