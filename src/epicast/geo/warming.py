"""Compiled code, loaded before the first event needs it."""

from __future__ import annotations

from epicast import log
from epicast.core import EpicastError


def warm_up() -> None:
    """Load it, which takes a moment, or seconds when it has to be compiled, once per machine; an
    error that says what to install if that is not possible."""
    try:
        import numba  # noqa: F401
    except ImportError as error:
        raise EpicastError(
            f"proxies and agents need numba ({error}); install it with: "
            "pip install 'epicast[server]'"
        ) from error
    log.warm_up()
