"""The report: one well-formed page that needs nothing from anywhere."""

import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import pytest

from epicast.experiments.executor import InlineExecutor
from epicast.experiments.model import Claim, Plot, Scale
from epicast.experiments.plotting import new_figure, render_png, render_svg
from epicast.experiments.report import render_report
from epicast.experiments.sweep import Failure, Sweep, run_sweep
from tests.unit.experiments.synthetic import Averages

VOID = {"meta", "img"}
CLAIMS = [
    Claim("T1", "paper <1>", "ours & 2", True, "fine"),
    Claim("T2", "p", "o", False, "because"),
]


class Page(HTMLParser):
    """Checks nesting; collects text and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return run_sweep(Averages(), Scale.SMOKE, 42, tmp_path, InlineExecutor())


def test_paper_beside_ours_with_everything_to_repeat_it(sweep: Sweep) -> None:
    plots = sweep.experiment.plots(sweep.results)
    html = render_report(sweep, CLAIMS, plots, "epicast experiment run 'a b'")
    page = Page(html)
    for text in (
        "Means of <samples> & more", "paper <1>", "ours & 2", "does not hold", "because",
        "epicast experiment run 'a b'", "42", "10, 100, 1000", "plain, squared", "12 of 12 rows",
        "Means & sizes", "results.parquet",
    ):  # fmt: skip
        assert text in page.text, text
    assert "Failed runs" not in page.text


def test_it_fetches_nothing(sweep: Sweep) -> None:
    html = render_report(sweep, CLAIMS, sweep.experiment.plots(sweep.results), "c")
    page = Page(html)
    assert len(page.links) == 1
    assert all(link.startswith("data:image/") for link in page.links)
    assert not re.search(r"<script|<link|@import|url\(|https?:", html)
    assert 'name="viewport"' in html and "@media print" in html


def test_failures_are_shown_with_their_traceback(sweep: Sweep) -> None:
    failed = Sweep(
        sweep.experiment, sweep.scale, sweep.seed, sweep.tasks, sweep.results,
        [Failure(sweep.tasks[0], "Traceback\nValueError: <bad>")], 0, 0.0,
    )  # fmt: skip
    text = Page(render_report(failed, CLAIMS, [], "c")).text
    assert "1 of 6 runs failed" in text
    assert "size=10, kind=plain" in text
    assert "ValueError: <bad>" in text


def test_a_plot_with_very_many_points_is_embedded_as_pixels(sweep: Sweep) -> None:
    figure, axes = new_figure("x", "y")
    axes.scatter(range(20_000), [n * 7919 % 10_007 for n in range(20_000)])
    link = Page(render_report(sweep, [], [Plot("p", "p", figure)], "c")).links[0]
    kind, _, data = link.partition(";base64,")
    assert kind == "data:image/png"
    assert b64decode(data).startswith(b"\x89PNG")


def test_figures_are_the_same_bytes_for_the_same_data() -> None:
    def draw() -> tuple[bytes, bytes]:
        figure, axes = new_figure("x", "y")
        axes.plot([1, 2], [3, 4], marker="o", label="a")
        axes.legend()
        return render_svg(figure), render_png(figure)

    assert draw() == draw()
