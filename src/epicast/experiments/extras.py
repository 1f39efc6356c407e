"""The optional packages behind results, traces and plots, and the command that installs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from epicast.core.errors import EpicastError


def require(package: str) -> Any:
    """The imported package; without it, an error that says how to get it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise EpicastError(
            f"this needs {package} ({error}); install it with: pip install 'epicast[experiments]'"
        ) from error


def require_extras() -> None:
    """Ask for everything a sweep will need at its end, before hours are spent on it."""
    for package in ("pyarrow", "matplotlib"):
        require(package)
