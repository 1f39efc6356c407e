"""A coordinator by its address."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from epicast.coordination.memory import MemoryCoordinator
from epicast.coordination.model import CoordinationError, Coordinator


def open_coordinator(address: str) -> Coordinator:
    """`memory:`, `sqlite:FILE`, or `etcd://HOST:PORT[,HOST:PORT…]`."""
    parts = urlsplit(address)
    if address == "memory:":
        return MemoryCoordinator()
    if parts.scheme == "sqlite" and parts.path:
        from epicast.coordination.sqlite import SqliteCoordinator

        return SqliteCoordinator(Path(parts.path))
    if parts.scheme == "etcd" and parts.netloc:
        from epicast.coordination.etcd import EtcdCoordinator

        return EtcdCoordinator(parts.netloc.split(","))
    raise CoordinationError(
        f"{address!r} is no coordination service: sqlite:FILE or etcd://HOST:PORT"
    )
