"""What is said to the coordination service, and what it answers. Type ids 8 to 15."""

from __future__ import annotations

from msgspec import Struct

from epicast.core import Message
from epicast.wire import register


class ViewEntry(Struct, frozen=True, array_like=True):
    key: str
    value: bytes
    revision: int
    """Of its last change."""


@register(8, datagrams=False)
class Watch(Message):
    """Tell what is under a prefix, now and whenever it changes. To be said again now and then: who
    is silent is forgotten."""

    prefix: str


@register(9, datagrams=False)
class View(Message):
    """All entries under a prefix, as of a revision."""

    prefix: str
    revision: int
    entries: tuple[ViewEntry, ...]


@register(10, datagrams=False)
class Put(Message):
    """Set `key` if its last change was `revision`, 0 if it is not there. Said again with the same
    words it does no harm: it succeeds at most once."""

    request: int
    key: str
    value: bytes
    revision: int


@register(11, datagrams=False)
class PutAnswer(Message):
    """The new revision; 0 if somebody else was first."""

    request: int
    key: str
    revision: int
