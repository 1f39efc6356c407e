"""One member of etcd, asked by HTTP: it answers or refuses as etcd does, or it is unable."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import socket
from ssl import SSLContext
from typing import Any, NoReturn

from epicast.coordination.etcd_answers import NotPromised, Refusal, decoded
from epicast.coordination.model import CoordinationError

_MOST_BYTES = 16 << 20
"""Of an answer: more than a hundred values of the largest size, in base 64."""
_PIECE_BYTES = 64 << 10
_MOST_CHARACTERS = 200
_LAST_PORT = 65535
_OK = 200
_FIRST_FAULT_OF_SERVERS = 500
_NEEDS_A_LEADER = {"Grpc-Metadata-hasleader": "true"}
"""Without it a member that has lost the others lets itself be watched, and stays silent."""


class Refused(CoordinationError):
    """For a reason that all members have."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Unable(Exception):
    """Another member may be able."""

    def __init__(self, problem: Exception, *, asked: bool) -> None:
        # The text of errors of HTTP is often just what came, whatever that is.
        text = repr(problem) if isinstance(problem, HTTPException) else str(problem)
        super().__init__(text[:_MOST_CHARACTERS])
        self.asked = asked
        """It may have done what it was asked for."""


class Member:
    def __init__(self, address: str, patience_s: float, context: SSLContext | None = None) -> None:
        """It has so long to be connected to, to begin to answer, and to finish. With `context`, it
        is asked over encrypted connections."""
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= _LAST_PORT:
            raise CoordinationError(f"{address!r} is not HOST:PORT of a member of etcd")
        self.address = address
        self._host, self._port = host.strip("[]"), int(port)
        self._patience_s = patience_s
        self._context = context

    @contextmanager
    def asked(self, method: str, request: dict[str, Any]) -> Iterator[Reply]:
        """On a connection of its own: there are few requests, and one that the other side has
        closed meanwhile would look like a change that may have been made."""
        with closing(self._connected()) as connection:
            try:
                wire = connection.sock  # the connection lets go of it if this request is its last
                connection.request("POST", f"/v3/{method}", json.dumps(request), _NEEDS_A_LEADER)
                with connection.getresponse() as response:
                    reply = Reply(wire, response, self._patience_s)
                    if response.status != _OK:
                        self._refused(response.status, reply.whole())
                    yield reply
            except (OSError, HTTPException, NotPromised) as error:
                raise Unable(error, asked=True) from error

    def _connected(self) -> HTTPConnection:
        try:
            connection = self._connection()
            connection.connect()
        except (OSError, HTTPException, UnicodeError) as error:  # the last two: no name of a host
            raise Unable(error, asked=False) from error
        return connection

    def _connection(self) -> HTTPConnection:
        place = (self._host, self._port)
        if self._context is None:
            return HTTPConnection(*place, timeout=self._patience_s)
        return HTTPSConnection(*place, timeout=self._patience_s, context=self._context)

    def _refused(self, status: int, text: bytes) -> NoReturn:
        what = f"HTTP status {status}"
        if status >= _FIRST_FAULT_OF_SERVERS:
            raise NotPromised(what, text)
        refusal = decoded(text, Refusal, what)
        message = f"etcd at {self.address} refuses: {refusal.message[:_MOST_CHARACTERS]!r}"
        raise Refused(message, refusal.code)


class Reply:
    """What a member says, in time or not at all: `TimeoutError`."""

    def __init__(self, wire: socket, response: HTTPResponse, patience_s: float) -> None:
        self._wire = wire
        self._response = response
        self._patience_s = patience_s
        self._unread = bytearray()

    def whole(self) -> bytes:
        deadline = time.monotonic() + self._patience_s
        while self._receive(deadline):
            pass
        return bytes(self._unread)

    def line(self, deadline: float | None = None) -> bytes:
        """The next one; what is behind the last one counts as one."""
        if deadline is None:
            deadline = time.monotonic() + self._patience_s
        while b"\n" not in self._unread and self._receive(deadline):
            pass
        if not self._unread:
            raise ConnectionError("it says no more")
        line, _, self._unread = self._unread.partition(b"\n")
        return bytes(line)

    def _receive(self, deadline: float) -> bool:
        """Whether there was more."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._wire.settimeout(left_s)
        piece = self._response.read1(_PIECE_BYTES)
        self._unread += piece
        if len(self._unread) > _MOST_BYTES:
            raise NotPromised("it says too much", bytes(self._unread))
        return bool(piece)
