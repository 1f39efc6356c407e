"""What can be wrong with a workload or what it is made from."""

from __future__ import annotations

from epicast import EpicastError


class WorkloadError(EpicastError):
    """A description, a directory or a trace is not what it should be."""
