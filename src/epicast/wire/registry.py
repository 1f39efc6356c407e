"""Which message type a number on the wire stands for.

Types register when their module is imported; the numbers are part of the wire format and listed, by
range, in `docs/wire.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from epicast.core import ConfigError, Message, WireError

MAX_TYPE_ID = 2**16 - 1


class UnknownType(WireError):
    """A whole, sound frame of a type that a later version may know: it can be passed over."""

    def __init__(self, type_id: int) -> None:
        super().__init__("unknown_type", f"no message type has the id {type_id}")
        self.type_id = type_id


MessageT = TypeVar("MessageT", bound=Message)

_types: dict[int, type[Message]] = {}
_ids: dict[type[Message], int] = {}


def register(type_id: int, *, datagrams: bool = True) -> Callable[[type[MessageT]], type[MessageT]]:
    """Let a message type cross the wire under this number; a decorator of classes.

    Without `datagrams`, the type is accepted on connections only. The sender of a datagram can
    claim to be any node.
    """

    def mark(message_class: type[MessageT]) -> type[MessageT]:
        if not 1 <= type_id <= MAX_TYPE_ID:
            raise ConfigError(f"type id {type_id} of {message_class.__name__}: 1..{MAX_TYPE_ID}")
        if not issubclass(message_class, Message):
            raise ConfigError(f"{message_class.__name__} is not a Message: it cannot be registered")
        if type_id in _types:
            raise ConfigError(
                f"type id {type_id} of {message_class.__name__} belongs to "
                f"{_types[type_id].__name__}; see docs/wire.md for free numbers"
            )
        if message_class in _ids:
            raise ConfigError(
                f"{message_class.__name__} has the type id {_ids[message_class]} already"
            )
        _types[type_id] = message_class
        _ids[message_class] = type_id
        message_class.type_id, message_class.datagrams = type_id, datagrams
        return message_class

    return mark


def message_type(type_id: int) -> type[Message]:
    """The type a number on the wire stands for; `UnknownType` if there is none."""
    found = _types.get(type_id)
    if found is None:
        raise UnknownType(type_id)
    return found


def type_id_of(message: Message) -> int:
    """The number of a message's own type: that of a base class would decode to the base class."""
    found = _ids.get(type(message))
    if found is None:
        raise ConfigError(
            f"{type(message).__name__} cannot cross the wire: decorate it with @register(type_id)"
        )
    return found


def registered() -> Mapping[int, type[Message]]:
    """All types by number; a live view."""
    return MappingProxyType(_types)
