"""A coordinator by its address."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from epicast.coordination.memory import MemoryCoordinator
from epicast.coordination.model import CoordinationError, Coordinator


def open_coordinator(address: str) -> Coordinator:
    """`memory:`, `sqlite:FILE`, `etcd://HOST:PORT[,HOST:PORT…]`; encrypted,
    `etcds://HOST:PORT[,…][?ca=FILE&certificate=FILE&key=FILE]`."""
    parts = urlsplit(address)
    if address == "memory:":
        return MemoryCoordinator()
    if parts.scheme == "sqlite" and parts.path:
        from epicast.coordination.sqlite import SqliteCoordinator

        return SqliteCoordinator(Path(parts.path))
    if parts.scheme in ("etcd", "etcds") and parts.netloc:
        from epicast.coordination.etcd import EtcdCoordinator

        files = dict(parse_qsl(parts.query, keep_blank_values=True))
        if not files.keys() <= {"ca", "certificate", "key"}:
            raise CoordinationError(
                f"{address!r}: expected ca=, certificate= and key= behind the ?"
            )
        context = _context(**files) if parts.scheme == "etcds" else None
        return EtcdCoordinator(parts.netloc.split(","), context=context)
    raise CoordinationError(
        f"{address!r} is no coordination service: sqlite:FILE, etcd://HOST:PORT or "
        "etcds://HOST:PORT"
    )


def _context(ca: str | None = None, certificate: str = "", key: str = "") -> ssl.SSLContext:
    """Who etcd is, is always checked; who we are is told if there is a certificate for it."""
    try:
        context = ssl.create_default_context(cafile=ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as error:  # those of ssl, too
        files = ", ".join(file for file in (ca, certificate, key) if file)
        raise CoordinationError(f"certificates for etcd ({files}): {error}") from error
    return context
