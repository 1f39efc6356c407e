"""One thread per process for numerical libraries."""

from __future__ import annotations

from collections.abc import Mapping

_THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def one_thread(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for a process that has not imported numpy yet, unless the environment has them:
    tasks fill the cores already, and sums do not depend on how they are cut."""
    return {name: environment.get(name, "1") for name in _THREAD_COUNTS}
