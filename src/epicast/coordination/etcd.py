"""In etcd, through the JSON gateway of its version 3: nothing to install but etcd itself."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from math import ceil
from ssl import SSLContext
from typing import Any

from epicast.coordination.etcd_answers import Changed, Found, Granted, Kept, KeyValue, Revoked
from epicast.coordination.etcd_member import Refused
from epicast.coordination.etcd_members import Members
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

    def __init__(
        self,
        members: Sequence[str],
        patience_s: float = _PATIENCE_S,
        context: SSLContext | None = None,
    ) -> None:
        """With `context`, over encrypted connections."""
        self._members = Members(members, patience_s, context)

    def read(self, prefix: str) -> View:
        found = self._members.ask("kv/range", _range(prefix), Found)
        entries = {_key(one): Entry(one.value, one.mod_revision, one.lease) for one in found.kvs}
        return View(found.header.revision, dict(sorted(entries.items())))

    def put(self, key: str, value: bytes, revision: int, lease: int = 0) -> int | None:
        check_key(key)
        check_value(value)
        change = {"key": _encoded(key), "value": b64encode(value).decode(), "lease": str(lease)}
        try:
            changed = self._if_unchanged(key, revision, {"request_put": change})
        except Refused as error:
            if error.code == _NOT_FOUND and lease:
                raise NoSuchLease(f"there is no lease {lease}") from error
            raise
        return changed.header.revision if changed.succeeded else None

    def remove(self, key: str, revision: int) -> bool:
        check_key(key)
        if not revision:
            return False
        change = {"request_delete_range": {"key": _encoded(key)}}
        return self._if_unchanged(key, revision, change).succeeded

    def wait(self, prefix: str, after: int, patience_s: float) -> View | None:
        """A watch that begins behind `after`. If etcd has forgotten so much that it cannot, there
        is no telling: what is there now is given."""
        # In fragments, since the first is enough to know, and all there is may be much.
        what = {**_range(prefix), "start_revision": str(after + 1), "fragment": True}
        if self._members.watch({"create_request": what}, patience_s):
            return self.read(prefix)
        return None

    def grant(self, ttl_s: float) -> int:
        """One that was granted without our knowing ends by itself."""
        request = {"TTL": str(max(1, ceil(ttl_s)))}
        return self._members.ask("lease/grant", request, Granted).lease

    def keep(self, lease: int) -> bool:
        return self._members.ask("lease/keepalive", {"ID": str(lease)}, Kept).result.ttl_s > 0

    def revoke(self, lease: int) -> None:
        try:
            self._members.ask("lease/revoke", {"ID": str(lease)}, Revoked)
        except Refused as error:
            if error.code != _NOT_FOUND:
                raise

    def close(self) -> None:
        """Nothing is open between calls."""

    def _if_unchanged(self, key: str, revision: int, change: dict[str, Any]) -> Changed:
        unchanged = {
            "key": _encoded(key),
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": str(revision),
        }
        request = {"compare": [unchanged], "success": [change]}
        return self._members.ask("kv/txn", request, Changed, repeatable=False)


def _range(prefix: str) -> dict[str, str]:
    """Keys that begin with it: from it to the first key that no more does."""
    first = prefix.encode() or b"\0"
    end = prefix.encode().rstrip(b"\xff")
    behind = end[:-1] + bytes([end[-1] + 1]) if end else b"\0"
    return {"key": b64encode(first).decode(), "range_end": b64encode(behind).decode()}


def _encoded(key: str) -> str:
    return b64encode(key.encode()).decode()


def _key(found: KeyValue) -> str:
    try:
        return found.key.decode()
    except UnicodeDecodeError as error:
        raise CoordinationError(f"etcd has a key that is not ours: {found.key[:80]!r}") from error
