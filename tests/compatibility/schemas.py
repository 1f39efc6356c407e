"""What messages look like on the wire, as plain data: to be recorded, compared, and spoken again.

A schema says of every message type that may be in a release its number, name and fields, and the
same of the structs inside. `Dialect` makes message types of a schema, so that a test can read and
write exactly what the recorded version could.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import fields as fields_of

import epicast.protocols.catalog
import epicast.protocols.sprinkler
import epicast.runtime.messages  # noqa: F401 - registers its messages, as the others do
from epicast.core import EventBatch, Message
from epicast.wire import registered
from epicast.wire.handshake import Hello

PRIVATE_IDS = 65280
"""From here on types belong to tests, benchmarks and examples."""
PLAIN = {kind.__name__: kind for kind in (int, float, str, bool, bytes)}

Schema = dict[str, Any]


def current_schema() -> Schema:
    structs: dict[str, Any] = {}
    messages = {
        str(number): {"name": kind.__name__, "fields": _fields(kind, structs)}
        for number, kind in sorted(registered().items())
        if number < PRIVATE_IDS
    }
    greeting = _fields(Hello, structs)
    return {"greeting": greeting, "messages": messages, "structs": dict(sorted(structs.items()))}


def _fields(kind: type[msgspec.Struct], structs: dict[str, Any]) -> list[list[str]]:
    """Name and type of each field; and "optional", if it may be missing at the end."""
    found = []
    for field in fields_of(kind):
        entry = [field.name, _spelled(field.type, structs)]
        if not field.required:
            entry.append("optional")
        found.append(entry)
    return found


def _spelled(kind: Any, structs: dict[str, Any]) -> str:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _spelled(inside[0], structs)  # a range says what is accepted, not how it is written
    if origin is tuple:
        return f"tuple[{', '.join('...' if i is ... else _spelled(i, structs) for i in inside)}]"
    if origin in (types.UnionType, typing.Union):
        return " | ".join("None" if i is type(None) else _spelled(i, structs) for i in inside)
    if kind is EventBatch:
        return "batch"
    if isinstance(kind, type) and issubclass(kind, enum.IntEnum):
        structs[kind.__name__] = {"numbers": sorted(member.value for member in kind)}
        return kind.__name__
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        assert kind.__struct_config__.array_like, f"{kind.__name__} would send names of fields"
        entry = {"fields": _fields(kind, structs)}
        assert structs.get(kind.__name__, entry) == entry, f"two structs called {kind.__name__}"
        structs[kind.__name__] = entry
        return kind.__name__
    assert PLAIN.get(getattr(kind, "__name__", "")) is kind, f"no spelling for {kind}"
    return str(kind.__name__)


_ENCRYPTED_ONLY = {"RefusalCode": {16}}
"""Said on encrypted connections only, which older nodes cannot make."""


def incompatibilities(old: Schema, new: Schema) -> list[str]:
    """Why a node that knows only `old` could not talk to one that knows `new`; empty if it can."""
    problems = []
    pairs = [("the greeting", old["greeting"], new["greeting"])]
    for number, was in old["messages"].items():
        now = new["messages"].get(number)
        if now is None:
            problems.append(f"message {number} ({was['name']}) is gone")
        else:
            pairs.append((f"message {number} ({was['name']})", was["fields"], now["fields"]))
    for name, was in old["structs"].items():
        now = new["structs"].get(name)
        if now is None or was.keys() != now.keys():
            problems.append(f"{name} is gone, or another kind of thing")
        elif "numbers" in was:
            if (
                added := set(now["numbers"])
                - set(was["numbers"])
                - _ENCRYPTED_ONLY.get(name, set())
            ):
                problems.append(f"{name} has numbers an older node refuses: {sorted(added)}")
        else:
            pairs.append((name, was["fields"], now["fields"]))
    for what, was, now in pairs:
        if now[: len(was)] != was:
            problems.append(f"{what}: {was} was there, now it begins with {now[: len(was)]}")
        problems += [
            f"{what}: the new field {field[0]!r} has no default"
            for field in now[len(was) :]
            if "optional" not in field
        ]
    return problems


class Dialect:
    """Message types made of a schema, by number; `greeting` is what a handshake says."""

    def __init__(self, schema: Schema) -> None:
        self._structs = schema["structs"]
        self._made: dict[str, Any] = {}
        self.greeting = self._struct("Greeting", schema["greeting"], msgspec.Struct)
        self.messages: Mapping[int, type[Message]] = {
            int(number): self._struct(entry["name"], entry["fields"], Message)
            for number, entry in schema["messages"].items()
        }

    def _struct(self, name: str, fields: list[list[str]], base: type[Any]) -> Any:
        def default(kind: str) -> Any:
            return None if "None" in kind else () if kind.startswith("tuple") else _EMPTY[kind]

        parts = [
            (field, self._kind(kind), default(kind)) if optional else (field, self._kind(kind))
            for field, kind, *optional in fields
        ]
        return msgspec.defstruct(name, parts, bases=(base,), array_like=True)

    def _kind(self, spelled: str) -> Any:
        names = {word for word in self._structs if word in spelled}
        known = {name: self._named(name) for name in names}
        # The text is our own: recorded by `current_schema`, committed, and reviewed.
        return eval(spelled, {**PLAIN, "tuple": tuple, "batch": EventBatch, **known})

    def _named(self, name: str) -> Any:
        if name not in self._made:
            entry = self._structs[name]
            if "numbers" in entry:
                members = [(f"N{number}", number) for number in entry["numbers"]]
                self._made[name] = enum.IntEnum(name, members)
            else:
                self._made[name] = self._struct(name, entry["fields"], msgspec.Struct)
        return self._made[name]


_EMPTY = {"int": 0, "float": 0.0, "str": "", "bool": False, "bytes": b""}
"""What the default itself is does not matter here: a recorded message says it."""
