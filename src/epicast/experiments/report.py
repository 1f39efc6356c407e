"""One HTML page per sweep: paper beside ours, plots, parameters, and how to make it again."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from epicast.experiments.model import Claim, Plot
from epicast.experiments.sweep import Sweep
from epicast.experiments.tasks import describe
from epicast.reporting import (
    Html,
    cell_text,
    code,
    details,
    figure,
    page,
    paragraph,
    preformatted,
    section,
    table,
    verdict,
)

_ROWS_SHOWN = 100
_VALUES_SHOWN = 12
_FAILURES_SHOWN = 20


def render_report(
    sweep: Sweep, claims: Sequence[Claim], plots: Sequence[Plot], command: str
) -> str:
    experiment = sweep.experiment
    return page(
        experiment.title,
        [
            paragraph("Experiment ", code(experiment.name), f", scale {sweep.scale}."),
            section("Claims", _claims(claims)),
            section("Failed runs", *_failures(sweep)),
            section("Plots", *(figure(plot.figure, plot.caption) for plot in plots)),
            section("Parameters", _parameters(sweep)),
            section("Results", *_rows(sweep)),
            section("How this was made", _origin(sweep, command)),
        ],
    )


def _claims(claims: Sequence[Claim]) -> Html:
    rows = [
        [
            claim.id,
            claim.paper,
            claim.ours,
            verdict(claim.holds, "holds" if claim.holds else "does not hold"),
            claim.detail,
        ]
        for claim in claims
    ]
    return table(["claim", "paper", "ours", "verdict", "detail"], rows, folds=True)


def _failures(sweep: Sweep) -> list[Html]:
    if not sweep.failures:
        return []
    counted = f"{len(sweep.failures)} of {len(sweep.tasks)} runs failed; no claim was judged."
    shown = [
        details(describe(failure.task.parameters), preformatted(failure.error), opened=True)
        for failure in sweep.failures[:_FAILURES_SHOWN]
    ]
    return [paragraph(counted, holds=False), *shown]


def _parameters(sweep: Sweep) -> Html:
    names = dict.fromkeys(name for task in sweep.tasks for name in task.parameters)
    rows = []
    for name in names:
        values = list(dict.fromkeys(task.parameters.get(name) for task in sweep.tasks))
        shown = ", ".join(map(cell_text, values[:_VALUES_SHOWN]))
        more = len(values) - _VALUES_SHOWN
        rows.append([code(name), shown + (f" and {more} more" if more > 0 else "")])
    return table(["parameter", "values"], rows)


def _rows(sweep: Sweep) -> list[Html]:
    results = sweep.results
    if not results.rows:
        return []
    names = results.column_names()
    shown = results.rows[:_ROWS_SHOWN]
    counted = f"{len(shown)} of {len(results)} rows. All rows are in "
    return [
        paragraph(counted, code("results.parquet"), "."),
        table(names, ([row.get(name) for name in names] for row in shown)),
    ]


def _origin(sweep: Sweep, command: str) -> Html:
    facts = {
        "command": command,
        "seed": str(sweep.seed),
        "runs": f"{len(sweep.tasks)}, {sweep.seconds:.1f} s of work in all",
        "software": f"epicast {version('epicast')}, Python {platform.python_version()}",
        "written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    }
    return table(["", ""], ([name, code(text)] for name, text in facts.items()))
