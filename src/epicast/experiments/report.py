"""One HTML page per sweep: paper beside ours, plots, parameters, and how to make it again.

A single file with nothing to fetch: it can be mailed, opened on a phone, or printed.
"""

from __future__ import annotations

import platform
from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version

from epicast.experiments.model import Claim, Plot, Scalar
from epicast.experiments.plotting import render_png, render_svg
from epicast.experiments.sweep import Sweep
from epicast.experiments.tasks import describe

_LARGEST_SVG = 400_000
_ROWS_SHOWN = 100
_VALUES_SHOWN = 12
_FAILURES_SHOWN = 20

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff;
       max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin-bottom: 0; }
h2 { font-size: 1.2rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.6rem;
         border-bottom: 1px solid #d8dee4; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.yes { color: #116329; font-weight: 600; }
.no { color: #a40e26; font-weight: 600; }
figure { margin: 1rem 0; break-inside: avoid; }
img { max-width: 100%; height: auto; }
pre, code { font-size: 0.85rem; overflow-wrap: anywhere; white-space: pre-wrap; }
@media (max-width: 40rem) {
  .claims thead { display: none; }
  .claims tr { display: block; border-bottom: 2px solid #8c959f; padding: 0.4rem 0; }
  .claims td { display: block; border: 0; padding: 0.1rem 0; }
  .claims td::before { content: attr(data-label) ": "; color: #57606a; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 11pt; }
  tr { break-inside: avoid; }
}
"""


def render_report(
    sweep: Sweep, claims: Sequence[Claim], plots: Sequence[Plot], command: str
) -> str:
    experiment = sweep.experiment
    parts = [
        f"<h1>{escape(experiment.title)}</h1>",
        f"<p>Experiment <code>{escape(experiment.name)}</code>, scale {sweep.scale}.</p>",
        _section("Claims", _claims(claims)),
        _section("Failed runs", _failures(sweep)),
        _section("Plots", "".join(map(_plot, plots))),
        _section("Parameters", _parameters(sweep)),
        _section("Results", _rows(sweep)),
        _section("How this was made", _origin(sweep, command)),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(experiment.title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{''.join(parts)}</body>\n</html>\n"
    )


def _section(heading: str, content: str) -> str:
    return f"<h2>{heading}</h2>\n{content}\n" if content else ""


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]], kind: str = "plain") -> str:
    """`rows` are finished cells."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(cells)}</tr>\n" for cells in rows)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def _claims(claims: Sequence[Claim]) -> str:
    def cells(claim: Claim) -> list[str]:
        verdict = ("yes", "holds") if claim.holds else ("no", "does not hold")
        texts = [("claim", claim.id), ("paper", claim.paper), ("ours", claim.ours)]
        return [
            *(f'<td data-label="{label}">{escape(text)}</td>' for label, text in texts),
            f'<td data-label="verdict"><span class="{verdict[0]}">{verdict[1]}</span></td>',
            f'<td data-label="detail">{escape(claim.detail)}</td>',
        ]

    if not claims:
        return ""
    return _table(
        ["claim", "paper", "ours", "verdict", "detail"], map(cells, claims), kind="claims"
    )


def _failures(sweep: Sweep) -> str:
    if not sweep.failures:
        return ""
    details = "".join(
        f"<details open><summary>{escape(describe(failure.task.parameters))}</summary>"
        f"<pre>{escape(failure.error)}</pre></details>\n"
        for failure in sweep.failures[:_FAILURES_SHOWN]
    )
    return (
        f'<p class="no">{len(sweep.failures)} of {len(sweep.tasks)} runs failed; '
        f"no claim was judged.</p>\n{details}"
    )


def _plot(plot: Plot) -> str:
    kind, data = "svg+xml", render_svg(plot.figure)
    if len(data) > _LARGEST_SVG:  # thousands of points: pixels are smaller than paths
        kind, data = "png", render_png(plot.figure)
    source = f"data:image/{kind};base64,{b64encode(data).decode()}"
    caption = escape(plot.caption)
    return (
        f'<figure><img src="{source}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'
    )


def _parameters(sweep: Sweep) -> str:
    names = dict.fromkeys(name for task in sweep.tasks for name in task.parameters)
    rows = []
    for name in names:
        values = list(dict.fromkeys(task.parameters.get(name) for task in sweep.tasks))
        shown = ", ".join(map(_text, values[:_VALUES_SHOWN]))
        more = len(values) - _VALUES_SHOWN
        tail = f" and {more} more" if more > 0 else ""
        rows.append([f"<td><code>{escape(name)}</code></td>", f"<td>{escape(shown)}{tail}</td>"])
    return _table(["parameter", "values"], rows)


def _rows(sweep: Sweep) -> str:
    results = sweep.results
    if not results.rows:
        return ""
    names = results.column_names()
    table = _table(
        names, ([_cell(row.get(name)) for name in names] for row in results.rows[:_ROWS_SHOWN])
    )
    where = "All rows are in <code>results.parquet</code>."
    return f"<p>{min(len(results), _ROWS_SHOWN)} of {len(results)} rows. {where}</p>\n{table}"


def _cell(value: Scalar) -> str:
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    kind = "number" if numeric else "text"
    return f'<td class="{kind}">{escape(_text(value))}</td>'


def _text(value: Scalar) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _origin(sweep: Sweep, command: str) -> str:
    facts = {
        "command": command,
        "seed": str(sweep.seed),
        "runs": f"{len(sweep.tasks)}, {sweep.seconds:.1f} s of work in all",
        "software": f"epicast {version('epicast')}, Python {platform.python_version()}",
        "written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    }
    rows = [
        [f"<td>{name}</td>", f"<td><code>{escape(text)}</code></td>"]
        for name, text in facts.items()
    ]
    return _table(["", ""], rows)
