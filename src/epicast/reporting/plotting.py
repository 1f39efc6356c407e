"""Figures without a display, the same bytes for the same data.

Only `Figure` objects, never pyplot: no global state, no backend to choose, nothing to close.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DOTS_PER_INCH = 150
_STYLE: Any = {
    "svg.hashsalt": "epicast",
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}


def new_figure(x_label: str, y_label: str, *, wide: bool = False) -> tuple[Figure, Axes]:
    """An empty figure with one pair of labelled axes in the house style."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(9 if wide else 6, 4), layout="constrained")
        axes = figure.add_subplot()
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return figure, axes


def render_svg(figure: Figure) -> bytes:
    return _render(figure, "svg", {"Date": None})


def render_png(figure: Figure) -> bytes:
    return _render(figure, "png", {"Software": None})


def _render(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    from matplotlib import rc_context

    buffer = BytesIO()
    with rc_context(_STYLE):
        figure.savefig(buffer, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata)
    return buffer.getvalue()
