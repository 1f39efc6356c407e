"""Addresses of Spark masters, looked at before Spark does: it takes a minute to say that nobody is
there, in many words."""

from __future__ import annotations

import os
import re
import socket
from urllib.parse import urlsplit

from epicast.pipeline.errors import SparkFailed

_CONNECT_S = 3.0
_MASTER = re.compile(
    r"local(\[([1-9]\d*|\*)(,\s*[1-9]\d*)?\])?|local-cluster\[[1-9]\d*,[1-9]\d*,[1-9]\d*\]"
    r"|spark://.+|yarn|k8s://.+"
)
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\d+,\d+,(\d+)\]")
_EXECUTOR_MB = 1024
"""What Spark asks for each executor unless told otherwise."""


def is_this_process(master: str) -> bool:
    """Whether workers are children of this very process, with its packages."""
    return master == "local" or master.startswith("local[")


def check_master(master: str) -> None:
    """Raise `SparkFailed` if it is no address of a master, or nobody is there."""
    if not _MASTER.fullmatch(master):
        raise SparkFailed(
            f"{master!r} is not a Spark master; use local[*], local-cluster[2,1,1024] or "
            "spark://HOST:PORT"
        )
    small = _LOCAL_CLUSTER.fullmatch(master)
    if small and int(small[1]) < _EXECUTOR_MB:
        raise SparkFailed(
            f"{master!r} gives a worker {small[1]} MB, and it needs {_EXECUTOR_MB} at least"
        )
    if master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        raise SparkFailed(
            "the master 'yarn' is described by files: set HADOOP_CONF_DIR or YARN_CONF_DIR to "
            "the folder that has them"
        )
    places = _places(master)
    if not places:
        return
    problems = []
    for host, port in places:
        try:
            socket.create_connection((host, port), _CONNECT_S).close()
            return
        except (OSError, UnicodeError) as error:  # the latter: no host can have such a name
            problems.append(f"{host}:{port}: {getattr(error, 'strerror', None) or error}")
    raise SparkFailed(
        f"no Spark master answers at {master} ({'; '.join(problems)}); is it running?"
    )


def _places(master: str) -> list[tuple[str, int]]:
    """Hosts and ports, any of which may answer."""
    if master.startswith("k8s://"):
        address = master.removeprefix("k8s://")
        return [_place(master, address if "://" in address else f"https://{address}", 443)]
    if master.startswith("spark://"):
        addresses = master.removeprefix("spark://").split(",")
        return [_place(master, f"spark://{address}", None) for address in addresses]
    return []


def _place(master: str, address: str, default: int | None) -> tuple[str, int]:
    try:
        split = urlsplit(address)
        host, port = split.hostname, split.port or default
    except ValueError:
        host = port = None
    if not host or not port:
        raise SparkFailed(f"{master!r}: {address.partition('://')[2]!r} is not HOST:PORT")
    return host, port
