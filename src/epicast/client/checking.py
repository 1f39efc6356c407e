"""Refusing, on the spot and in words, what the owner of a stream would refuse later."""

from __future__ import annotations

from collections.abc import Sequence

from epicast.client.errors import PublishRefused
from epicast.core import EventBatch
from epicast.protocols.sprinkler.messages import RefusalCode


def invalid(detail: str) -> PublishRefused:
    return PublishRefused(RefusalCode.INVALID.name, detail)


class EventChecks:
    """What an event of one stream or topic must be like."""

    __slots__ = ("_max_bytes", "_max_key_bytes", "_name")

    def __init__(self, name: str, max_key_bytes: int, max_bytes: int) -> None:
        self._name = name
        self._max_key_bytes = max_key_bytes
        self._max_bytes = max_bytes

    def event(self, payload: object, key: object) -> tuple[bytes, bytes]:
        return self._payload(payload), self._key(key)

    def events(
        self, payloads: Sequence[bytes], keys: Sequence[bytes] | None
    ) -> tuple[Sequence[bytes], Sequence[bytes] | None]:
        """The same for many, at the cost of a few passes in C unless something is wrong."""
        if keys is not None and len(keys) != len(payloads):
            raise invalid(f"{len(keys)} keys for {len(payloads)} payloads")
        if not len(payloads):
            raise invalid("no events")
        if set(map(type, payloads)) != {bytes}:
            payloads = [_as_bytes(payload, "payload") for payload in payloads]
        self._payload(max(payloads, key=len))
        if keys is not None:
            if set(map(type, keys)) != {bytes}:
                keys = [_as_bytes(key, "key") for key in keys]
            self._key(max(keys, key=len))
        return payloads, keys

    def columns(self, batch: EventBatch, keys: object) -> EventBatch:
        if batch.tombstones or not batch.rows or keys is not None:
            raise invalid("a batch to publish has a row for each number, and its own keys")
        if batch.payload_bytes > min(self._max_key_bytes, self._max_bytes):
            longest = batch.longest
            self._check_key_bytes(longest.key)
            self._check_bytes(longest.payload)
        return batch

    def _payload(self, value: object) -> bytes:
        payload = _as_bytes(value, "payload")
        self._check_bytes(len(payload))
        return payload

    def _key(self, value: object) -> bytes:
        key = _as_bytes(value, "key")
        self._check_key_bytes(len(key))
        return key

    def _check_bytes(self, size: int) -> None:
        if size > self._max_bytes:
            raise invalid(
                f"a payload of {size} bytes; {self._max_bytes} is the most: publish parts, or "
                "where the data is"
            )

    def _check_key_bytes(self, size: int) -> None:
        most = self._max_key_bytes
        if size > most:
            raise invalid(
                f"a key of {size} bytes; {self._name!r} takes {most} at most: shorten it, or "
                "raise the limit"
            )


def _as_bytes(value: object, what: str) -> bytes:
    if type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    hint = ": encode it first" if isinstance(value, str) else ""
    raise TypeError(f"a {what} is bytes, not {type(value).__name__}{hint}")
