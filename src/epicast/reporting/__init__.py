"""Pages for people: what an experiment, a workload or an audit found, on one page with plots.

from epicast.reporting import page, section, table

html = page("Audit", [section("Streams", table(["stream", "lost"], [["orders", 0]]))])
"""

from epicast.reporting.page import (
    Cell,
    Html,
    bulleted,
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
from epicast.reporting.plotting import new_figure, render_png, render_svg

__all__ = [
    "Cell",
    "Html",
    "bulleted",
    "cell_text",
    "code",
    "details",
    "figure",
    "new_figure",
    "page",
    "paragraph",
    "preformatted",
    "render_png",
    "render_svg",
    "section",
    "table",
    "verdict",
]
