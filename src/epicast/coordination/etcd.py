"""In etcd, through the JSON gateway of its version 3: nothing to install but etcd itself."""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse
from math import ceil
from typing import Any

from epicast.coordination.model import (
    CoordinationError,
    Entry,
    NoSuchLease,
    View,
    check_key,
    check_value,
)

_PATIENCE_S = 5.0
_NOT_FOUND = 5
"""What gRPC calls something that is not there."""


class EtcdCoordinator:
    """Of several members the first that answers is asked."""

    def __init__(self, members: Sequence[str], patience_s: float = _PATIENCE_S) -> None:
        self._members = list(members)
        self._patience_s = patience_s
        self._connection: HTTPConnection | None = None

    def read(self, prefix: str) -> View:
        answer = self._ask("kv/range", _range(prefix))
        found = sorted(
            (
                b64decode(one["key"]).decode(),
                Entry(
                    b64decode(one.get("value", "")),
                    int(one["mod_revision"]),
                    int(one.get("lease", 0)),
                ),
            )
            for one in answer.get("kvs", ())
        )
        return View(_revision(answer), dict(found))

    def put(self, key: str, value: bytes, revision: int, lease: int = 0) -> int | None:
        check_key(key)
        check_value(value)
        change = {"key": _encoded(key), "value": b64encode(value).decode(), "lease": str(lease)}
        try:
            answer = self._if_unchanged(key, revision, {"request_put": change})
        except _Refused as error:
            if error.code == _NOT_FOUND and lease:
                raise NoSuchLease(f"there is no lease {lease}") from error
            raise
        return _revision(answer) if answer.get("succeeded") else None

    def remove(self, key: str, revision: int) -> bool:
        check_key(key)
        if not revision:
            return False
        change = {"request_delete_range": {"key": _encoded(key)}}
        return bool(self._if_unchanged(key, revision, change).get("succeeded"))

    def wait(self, prefix: str, after: int, patience_s: float) -> View | None:
        """A watch that begins behind `after`. If etcd has forgotten so much that it cannot, there
        is no telling: what is there now is given."""
        request = {"create_request": {**_range(prefix), "start_revision": str(after + 1)}}
        deadline = time.monotonic() + patience_s
        for member in self._members:
            connection = _connection(member, self._patience_s)
            with closing(connection):
                try:
                    response = _post(connection, "watch", request)
                except (OSError, HTTPException):
                    continue
                try:
                    for answer in _stream(connection, response, deadline):
                        if answer.get("events") or answer.get("canceled"):
                            return self.read(prefix)
                except TimeoutError:
                    return None
                except (OSError, HTTPException):
                    continue
        raise CoordinationError(self._nobody("nobody lets itself be watched"))

    def grant(self, ttl_s: float) -> int:
        return int(self._ask("lease/grant", {"TTL": str(max(1, ceil(ttl_s)))})["ID"])

    def keep(self, lease: int) -> bool:
        answer = self._ask("lease/keepalive", {"ID": str(lease)})
        return int(answer.get("result", {}).get("TTL", 0)) > 0

    def revoke(self, lease: int) -> None:
        try:
            self._ask("lease/revoke", {"ID": str(lease)})
        except _Refused as error:
            if error.code != _NOT_FOUND:
                raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _if_unchanged(self, key: str, revision: int, change: dict[str, Any]) -> dict[str, Any]:
        unchanged = {
            "key": _encoded(key),
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": str(revision),
        }
        return self._ask("kv/txn", {"compare": [unchanged], "success": [change]})

    def _ask(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        """Tried once with each member: what was sent may have been done although no answer came,
        so that only reading is tried again."""
        problem: Exception | None = None
        for member in self._members if self._connection is None else [None, *self._members]:
            try:
                if member is not None:
                    self.close()
                    self._connection = _connection(member, self._patience_s)
                    self._connection.connect()
            except OSError as error:
                self.close()
                problem = error
                continue
            assert self._connection is not None
            try:
                return _answer(_post(self._connection, method, request))
            except (OSError, HTTPException) as error:
                self.close()
                problem = error
                if method != "kv/range" and not isinstance(error, ConnectionRefusedError):
                    break
        raise CoordinationError(self._nobody(str(problem or "no answer")))

    def _nobody(self, reason: str) -> str:
        return f"etcd at {', '.join(self._members)} does not answer ({reason})"


class _Refused(CoordinationError):
    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def _connection(member: str, patience_s: float) -> HTTPConnection:
    host, _, port = member.rpartition(":")
    if not host or not port.isdecimal():
        raise CoordinationError(f"{member!r} is not HOST:PORT of a member of etcd")
    return HTTPConnection(host.strip("[]"), int(port), timeout=patience_s)


def _post(connection: HTTPConnection, method: str, request: dict[str, Any]) -> HTTPResponse:
    connection.request("POST", f"/v3/{method}", json.dumps(request))
    return connection.getresponse()


def _answer(response: HTTPResponse) -> dict[str, Any]:
    text = response.read()
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise CoordinationError(f"what answers is not etcd: {text[:80]!r}")
    if response.status != 200 or "error" in answer:
        detail = answer.get("message") or answer.get("error") or response.reason
        raise _Refused(f"etcd refuses: {detail}", int(answer.get("code", 0)))
    return answer


def _stream(
    connection: HTTPConnection, response: HTTPResponse, deadline: float
) -> Iterator[dict[str, Any]]:
    """Answers one after the other; `TimeoutError` at the deadline."""
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left)
        line = response.readline()
        if not line:
            raise ConnectionError("the watch has ended")
        yield json.loads(line).get("result", {})


def _range(prefix: str) -> dict[str, str]:
    """Keys that begin with it: from it to the first key that no more does."""
    first = prefix.encode() or b"\0"
    end = prefix.encode().rstrip(b"\xff")
    behind = end[:-1] + bytes([end[-1] + 1]) if end else b"\0"
    return {"key": b64encode(first).decode(), "range_end": b64encode(behind).decode()}


def _encoded(key: str) -> str:
    return b64encode(key.encode()).decode()


def _revision(answer: dict[str, Any]) -> int:
    return int(answer["header"]["revision"])
