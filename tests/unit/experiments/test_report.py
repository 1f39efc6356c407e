"""The report of a sweep: everything is on the page, and it needs nothing from anywhere."""

from pathlib import Path

import pytest

from epicast.experiments.executor import InlineExecutor
from epicast.experiments.model import Claim, Scale
from epicast.experiments.report import render_report
from epicast.experiments.sweep import Failure, Sweep, run_sweep
from tests.unit.experiments.synthetic import Averages
from tests.unit.reporting.parsed import ParsedPage

CLAIMS = [
    Claim("T1", "paper <1>", "ours & 2", True, "fine"),
    Claim("T2", "p", "o", False, "because"),
]


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return run_sweep(Averages(), Scale.SMOKE, 42, tmp_path, InlineExecutor())


def test_paper_beside_ours_with_everything_to_repeat_it(sweep: Sweep) -> None:
    plots = sweep.experiment.plots(sweep.results)
    page = ParsedPage(render_report(sweep, CLAIMS, plots, "epicast experiment run 'a b'"))
    for text in (
        "Means of <samples> & more", "paper <1>", "ours & 2", "does not hold", "because",
        "epicast experiment run 'a b'", "42", "10, 100, 1000", "plain, squared", "12 of 12 rows",
        "Means & sizes", "results.parquet",
    ):  # fmt: skip
        assert text in page.text, text
    assert "Failed runs" not in page.text


def test_it_fetches_nothing(sweep: Sweep) -> None:
    html = render_report(sweep, CLAIMS, sweep.experiment.plots(sweep.results), "c")
    page = ParsedPage(html)
    assert len(page.links) == 1
    assert page.fetches_nothing()


def test_failures_are_shown_with_their_traceback(sweep: Sweep) -> None:
    failed = Sweep(
        sweep.experiment, sweep.scale, sweep.seed, sweep.tasks, sweep.results,
        [Failure(sweep.tasks[0], "Traceback\nValueError: <bad>")], 0, 0.0,
    )  # fmt: skip
    text = ParsedPage(render_report(failed, CLAIMS, [], "c")).text
    assert "1 of 6 runs failed" in text
    assert "size=10, kind=plain" in text
    assert "ValueError: <bad>" in text
