"""A single HTML file with nothing to fetch: it can be mailed, opened on a phone, or printed.

Whatever is not `Html` yet is text and gets escaped, so that no name, key or error message of a user
can break a page.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from epicast.reporting.plotting import render_png, render_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGEST_SVG = 400_000
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff;
       max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin-bottom: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.6rem;
         border-bottom: 1px solid #d8dee4; }
td.number { text-align: right; font-variant-numeric: tabular-nums;
            white-space: nowrap; }
.yes { color: #116329; font-weight: 600; }
.no { color: #a40e26; font-weight: 600; }
figure { margin: 1rem 0; break-inside: avoid; }
img { max-width: 100%; height: auto; }
pre, code { font-size: 0.85rem; overflow-wrap: anywhere; white-space: pre-wrap; }
@media (max-width: 40rem) {
  .folds thead { display: none; }
  .folds tr { display: block; border-bottom: 2px solid #8c959f; padding: 0.4rem 0; }
  .folds td, .folds td.number { display: block; border: 0; padding: 0.1rem 0; text-align: left; }
  .folds td[data-label]::before { content: attr(data-label) ": "; color: #57606a; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 11pt; }
  .scroll { overflow-x: visible; }
  tr { break-inside: avoid; }
}
"""


class Html(str):
    """Finished markup: put on the page as it is."""

    __slots__ = ()


Cell = str | int | float | bool | None
"""What stands in a table: text, `Html` among it, or a number, which is written to the right."""


def page(title: str, parts: Iterable[str]) -> str:
    """The whole file. `parts` are mostly sections; the title is written above them."""
    content = "".join(map(_markup, parts))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{content}</body>\n</html>\n"
    )


def section(heading: str, *parts: str) -> Html:
    """A heading and what belongs to it; nothing at all where there is nothing to show."""
    content = "".join(map(_markup, parts))
    return Html(f"<h2>{escape(heading)}</h2>\n{content}\n" if content else "")


def paragraph(*parts: str, holds: bool | None = None) -> Html:
    """`holds` colours it as good or bad news."""
    return Html(f"<p{_colour(holds)}>{''.join(map(_markup, parts))}</p>\n")


def code(text: str) -> Html:
    return Html(f"<code>{escape(text)}</code>")


def verdict(holds: bool, text: str) -> Html:
    """Good or bad news within a line or a table."""
    return Html(f"<span{_colour(holds)}>{escape(text)}</span>")


def preformatted(text: str) -> Html:
    return Html(f"<pre>{escape(text)}</pre>\n")


def bulleted(items: Iterable[str]) -> Html:
    content = "".join(f"<li>{_markup(item)}</li>\n" for item in items)
    return Html(f"<ul>\n{content}</ul>\n" if content else "")


def details(summary: str, *parts: str, opened: bool = False) -> Html:
    """What most readers skip: shown when its summary is pressed."""
    content = "".join(map(_markup, parts))
    start = "<details open>" if opened else "<details>"
    return Html(f"{start}<summary>{_markup(summary)}</summary>{content}</details>\n")


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]], *, folds: bool = False) -> Html:
    """Nothing if there are no rows. On a phone a table that folds shows each row as a card, which
    suits few columns with much text; any other scrolls sideways."""
    body = "".join(f"<tr>{_cells(heads, row)}</tr>\n" for row in rows)
    if not body:
        return Html("")
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    top = f"<thead><tr>{head}</tr></thead>\n" if any(heads) else ""
    kind = ' class="folds"' if folds else ""
    return Html(f'<div class="scroll"><table{kind}>{top}<tbody>{body}</tbody></table></div>\n')


def figure(drawing: Figure, caption: str, *, description: str = "") -> Html:
    """A plot within the page. `description` is read out to who cannot see it; else the caption."""
    kind, data = "svg+xml", render_svg(drawing)
    if len(data) > _LARGEST_SVG:  # thousands of points: pixels are smaller than paths
        kind, data = "png", render_png(drawing)
    source = f"data:image/{kind};base64,{b64encode(data).decode()}"
    return Html(
        f'<figure><img src="{source}" alt="{escape(description or caption)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    )


def _cells(heads: Sequence[str], row: Sequence[Cell]) -> str:
    return "".join(_cell(head, value) for head, value in zip(heads, row, strict=True))


def _cell(head: str, value: Cell) -> str:
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    kind = ' class="number"' if numeric else ""
    label = f' data-label="{escape(head)}"' if head else ""
    return f"<td{kind}{label}>{_markup(cell_text(value))}</td>"


def cell_text(value: Cell) -> str:
    """As a table shows it: six digits of a fraction are enough for people."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _markup(text: str) -> str:
    return text if isinstance(text, Html) else escape(text)


def _colour(holds: bool | None) -> str:
    return "" if holds is None else f' class="{"yes" if holds else "no"}"'
