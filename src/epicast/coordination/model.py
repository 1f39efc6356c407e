"""The contract that all backends keep."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from epicast.core import EpicastError

MAX_VALUE_BYTES = 64 << 10
MAX_KEY_BYTES = 1 << 10


class CoordinationError(EpicastError):
    """The service did not do it, or did it and the answer was lost: read again to know."""


class NoSuchLease(CoordinationError):
    """It has run out, or was never granted."""


class Entry(Struct, frozen=True):
    value: bytes
    revision: int
    """Of its last change: what compare-and-set compares."""
    lease: int = 0


class View(Struct, frozen=True):
    """All entries under a prefix, as of a revision."""

    revision: int
    entries: dict[str, Entry]


class Coordinator(Protocol):
    """Calls block, for as long as the service takes; one thread at a time may use an instance.

    Every change gets a higher revision than all before it, whatever its key.
    """

    def read(self, prefix: str) -> View:
        """Never older than any change whose call has returned, here or elsewhere."""

    def put(self, key: str, value: bytes, revision: int, lease: int = 0) -> int | None:
        """Set `key` if its last change was `revision`, 0 if it is not there; the new revision, or
        None if somebody else was first. With a lease the entry vanishes when that ends."""

    def remove(self, key: str, revision: int) -> bool:
        """Likewise."""

    def wait(self, prefix: str, after: int, patience_s: float) -> View | None:
        """As soon as anything under `prefix` has changed after the revision `after`, what is there
        now; None if nothing has for so long. May come back for less: the view is the same then."""

    def grant(self, ttl_s: float) -> int:
        """A lease that ends unless it is kept within `ttl_s`, or what the service has as the least
        it can do."""

    def keep(self, lease: int) -> bool:
        """For another while; whether it was still there."""

    def revoke(self, lease: int) -> None:
        """End it now, and all that is bound to it."""

    def close(self) -> None: ...


def check_key(key: str) -> None:
    if not key or len(key.encode()) > MAX_KEY_BYTES or "\0" in key:
        raise CoordinationError(f"a key has 1 to {MAX_KEY_BYTES} bytes and no NUL, not {key!r:.80}")


def check_value(value: bytes) -> None:
    if len(value) > MAX_VALUE_BYTES:
        raise CoordinationError(
            f"a value has at most {MAX_VALUE_BYTES} bytes, not {len(value)}: keep it elsewhere and "
            "only its name here"
        )
