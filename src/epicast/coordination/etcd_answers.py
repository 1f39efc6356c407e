"""What etcd's JSON gateway promises to answer.

Numbers come as strings, bytes in base 64, and what is zero or empty is left out. What is always
there is required here: an answer without it is not etcd's.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct, field

Answer = TypeVar("Answer")
_SHOWN_BYTES = 80


class NotPromised(Exception):
    """Something else came; shown as Python writes bytes, which is safe in a log."""

    def __init__(self, what: str, text: bytes) -> None:
        more = " and more" if len(text) > _SHOWN_BYTES else ""
        super().__init__(f"{what}: {text[:_SHOWN_BYTES]!r}{more}")


class Header(Struct, frozen=True):
    revision: int


class KeyValue(Struct, frozen=True):
    key: bytes
    mod_revision: int
    value: bytes = b""
    lease: int = 0


class Found(Struct, frozen=True):
    header: Header
    kvs: list[KeyValue] = []


class Changed(Struct, frozen=True):
    header: Header
    succeeded: bool = False


class Granted(Struct, frozen=True):
    lease: int = field(name="ID")


class Revoked(Struct, frozen=True):
    header: Header


class Lifetime(Struct, frozen=True):
    header: Header
    ttl_s: int = field(name="TTL", default=0)


class Kept(Struct, frozen=True):
    result: Lifetime


class Changes(Struct, frozen=True):
    header: Header
    events: list[Raw] = []
    canceled: bool = False


class Watched(Struct, frozen=True):
    result: Changes


class Refusal(Struct, frozen=True):
    """Others answer with numbers as well, but theirs are those of HTTP."""

    code: Annotated[int, Meta(ge=1, le=16)]
    """Of gRPC."""
    message: str


def decoded(text: bytes, kind: type[Answer], otherwise: str = "what answers is not etcd") -> Answer:
    try:
        return msgspec.json.decode(text, type=kind, strict=False)
    except (ValueError, RecursionError) as error:
        raise NotPromised(otherwise, text) from error
