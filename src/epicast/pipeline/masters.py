"""Addresses of Spark masters, looked at before Spark does: it takes a minute to say that nobody is
there, in many words."""

from __future__ import annotations

import os
import re
import socket
import struct
from urllib.parse import urlsplit

from epicast.pipeline.errors import SparkFailed

_CONNECT_S = 3.0
_ANSWER_S = 15.0
_FRAME = struct.Struct(">QB")
"""Of Spark's network layer: length, this included, and kind of message."""
_NO_FILE = b"/files/epicast-asks-whether-this-is-spark"
_QUESTION = _FRAME.pack(_FRAME.size + 4 + len(_NO_FILE), 6) + struct.pack(">I", len(_NO_FILE))
_QUESTION += _NO_FILE + b"\r\n\r\n"  # so that who expects lines has one to complain about
_LAST_KIND = 12
_LONGEST_ANSWER = 1 << 24
_TLS_ALERT = 0x15
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
            with socket.create_connection((host, port), _CONNECT_S) as connection:
                objection = objection_of(connection) if master.startswith("spark:") else ""
        except (OSError, UnicodeError) as error:  # the latter: no host can have such a name
            objection = getattr(error, "strerror", None) or str(error)
        if not objection:
            return
        problems.append(f"{host}:{port}: {objection}")
    raise SparkFailed(
        f"no Spark master answers at {master} ({'; '.join(problems)}); is it running?"
    )


def objection_of(connection: socket.socket, patience_s: float = _ANSWER_S) -> str:
    """Why who is at the other end is no Spark; empty if it is, or may be.

    It is asked for a file that nobody has. Spark's network layer refuses that by itself, however
    busy the master is and whether or not it asks for a password; and Spark would take a minute to
    find out that somebody else is there.
    """
    try:
        answer = answer_of(connection, patience_s)
    except TimeoutError:
        return f"it says nothing, for {patience_s:g} s; a Spark master would have answered"
    except OSError:
        answer = b""
    if len(answer) < _FRAME.size or answer[0] == _TLS_ALERT:
        return ""  # hung up, as one that wants the connection encrypted does
    length, kind = _FRAME.unpack_from(answer)
    if _FRAME.size <= length < _LONGEST_ANSWER and kind <= _LAST_KIND:
        return ""
    said = answer.split(b"\n")[0][:40].decode("ascii", "backslashreplace").strip()
    page = "; that is a web page, masters listen on 7077 as a rule" * answer.startswith(b"HTTP/")
    return f"it is no Spark master, and says {said!r}{page}"


def answer_of(connection: socket.socket, patience_s: float) -> bytes:
    """The beginning of it."""
    connection.settimeout(patience_s)
    connection.sendall(_QUESTION)
    answer = b""
    while len(answer) < _FRAME.size and (more := connection.recv(256)):
        answer += more
    return answer


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
