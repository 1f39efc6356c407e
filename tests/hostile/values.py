"""Values for the fields of messages, made from the fields' types.

`Vocabulary` is what an attacker knows: it learns, by the name of the field, what real messages of a
running system say (stream ids, epochs, sequence numbers, names). `ValueMaker` makes a value of any
type a message may have: a plausible one out of the vocabulary or near it, or an extreme one. A type
it cannot make raises `TypeError`, so a message type with one fails the tests as soon as it is
registered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from epicast.core import EventBatch, Message
from tests.hostile.batches import make_batch

NUMBERS = (
    0, -1, 1, 2, 3, 7, 63, 64, 255, 1000, 65_536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40,
    2**53 + 1, 2**62, 2**63 - 2, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, -2, -(2**31), -(2**63),
)  # fmt: skip
DIGITS = "9" * 5000
LONG = ("regions=" + DIGITS, DIGITS, "a" * 20_000, "é" * 300)
TEXTS = (
    "", "regions=-1", "regions=0", "regions=1", "regions=+1", "regions= 2", "regions=٣",
    "regions=²", "regions=", "regions=1_0", "regions=18446744073709551616", "memory", "interval",
    "disk", "..", "../../victim", "/etc/passwd", "a/b", "a\\b", ".", "\x00", "\x1b[2J\x07",
    "\n\r\t", "\u202e", "127.0.0.1", "::1", "nobody.invalid", "chain/us", "-1", "1e999", "nan",
)  # fmt: skip
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-300,
    1e308,
    -1e308,
    float("inf"),
    float("-inf"),
    float("nan"),
)
PORTS = (0, -1, 1, 7400, 65_535, 65_536, 2**31, 2**63)
REMEMBERED = 64
"""Values of one field, the newest."""
LONGEST = 2000
"""Elements of a tuple made longer than any real one."""


class Vocabulary:
    """Values seen in real messages, by field, and the numbers and batches of all fields."""

    def __init__(self) -> None:
        self.by_field: defaultdict[str, list[Any]] = defaultdict(list)
        self.numbers: list[int] = [1]
        self.batches: list[EventBatch] = []
        self.newest: dict[int, EventBatch] = {}
        """The last batch of each stream."""
        self._learnt = 0

    def learn(self, value: Any, field: str = "") -> None:
        if isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                self.learn(getattr(value, name), name)
        elif isinstance(value, tuple):
            for element in value[:8]:
                self.learn(element, field)
        elif isinstance(value, EventBatch):
            self._keep(self.batches, value)
            for name in ("stream", "epoch", "first", "last"):
                self.learn(getattr(value, name), name)
        elif value is not None:
            self._keep(self.by_field[field], value)
            if type(value) is int:
                self._keep(self.numbers, value)

    def note_newest(self, batches: Iterable[EventBatch]) -> None:
        for batch in batches:
            known = self.newest.get(batch.stream)
            if known is None or (batch.epoch, batch.last) > (known.epoch, known.last):
                self.newest[batch.stream] = batch

    def _keep(self, values: list[Any], value: Any) -> None:
        self._learnt += 1
        if len(values) < REMEMBERED:
            values.append(value)
        else:
            values[self._learnt % REMEMBERED] = value


class ValueMaker:
    def __init__(self, vocabulary: Vocabulary, rng: Random) -> None:
        self.vocabulary = vocabulary
        self.rng = rng

    def message(self, kind: type[Message]) -> Message:
        """Make a plausible message of a type."""
        made: Message = self.plausible(type_of(kind), "")
        return made

    # -- plausible values ------------------------------------------------------------------------

    def plausible(self, info: inspect.Type, field: str) -> Any:
        rng = self.rng
        match info:
            case inspect.StructType():
                return info.cls(*[self.plausible(each.type, each.name) for each in info.fields])
            case inspect.VarTupleType():
                count = rng.choice((0, 1, 1, 1, 2, 3))
                return tuple([self.plausible(info.item_type, field) for _ in range(count)])
            case inspect.TupleType():
                return tuple([self.plausible(each, field) for each in info.item_types])
            case inspect.UnionType():
                return self.plausible(rng.choice(info.types), field)
            case inspect.CustomType() if info.cls is EventBatch:
                return make_batch(rng, self.vocabulary, self.number)
        return self._plausible_leaf(info, field)

    def _plausible_leaf(self, info: inspect.Type, field: str) -> Any:
        rng = self.rng
        match info:
            case inspect.IntType():
                return self.number(field)
            case inspect.StrType():
                known = [each for each in self.vocabulary.by_field[field] if type(each) is str]
                return rng.choice(known) if known else rng.choice(TEXTS)
            case inspect.BytesType():
                return self._bytes(field)
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.FloatType():
                return rng.choice(FLOATS)
            case inspect.EnumType():
                return rng.choice(list(info.cls))
            case inspect.NoneType():
                return None
        raise TypeError(f"field {field!r}: no value of {info} is known how to be made")

    def number(self, field: str) -> int:
        rng, known = self.rng, self.vocabulary.by_field.get(field)
        found = rng.choice(known) if known and rng.random() < 0.8 else None
        if type(found) is not int:
            found = rng.choice(self.vocabulary.numbers)
        step = rng.choice((0, 0, 0, 0, 0, -1, 1, 2, 100))
        return min(max(found + step, -(2**63)), 2**64 - 1)

    # -- extreme values --------------------------------------------------------------------------

    def extreme(self, info: inspect.Type, field: str, value: Any) -> Any:
        """Return another value in place of `value`, which is neither a struct nor a tuple."""
        rng = self.rng
        match info:
            case inspect.IntType():
                if field == "port":
                    return rng.choice(PORTS)
                if rng.random() < 0.3:
                    return self.number(field)
                return rng.choice(
                    (*NUMBERS, *_bounds(info)) if rng.random() < 0.6 else _bounds(info)
                )
            case inspect.StrType():
                return rng.choice(LONG if rng.random() < 0.4 else TEXTS)
            case inspect.BytesType():
                return self._damaged(value)
            case inspect.BoolType():
                return not value
            case inspect.UnionType():
                kinds = [each for each in info.types if not isinstance(each, inspect.NoneType)]
                if value is not None and rng.random() < 0.3 and len(kinds) < len(info.types):
                    return None
                kind = rng.choice(kinds)
                if value is None or is_compound(kind):
                    return self.plausible(kind, field)
                return self.extreme(kind, field, value)
        return self.plausible(info, field)

    def changed_tuple(self, info: inspect.VarTupleType, field: str, value: tuple[Any, ...]) -> Any:
        """Return the tuple emptied, shortened, reversed, or with more elements."""
        rng = self.rng
        choice = rng.randrange(8)
        if choice == 0 or not value:
            return () if value else (self.plausible(info.item_type, field),)
        if choice == 1:
            return value[: rng.randrange(len(value))]
        if choice == 2:
            return tuple(reversed(value))
        if choice == 3:
            times = rng.choice((2, 3, 50, LONGEST)) if rng.random() < 0.1 else 2
            return value + (rng.choice(value),) * times
        return (*value, self.plausible(info.item_type, field))

    def _bytes(self, field: str) -> bytes:
        known = self.vocabulary.by_field[field]
        found = self.rng.choice(known) if known and self.rng.random() < 0.8 else None
        if isinstance(found, (bytes, memoryview)):
            return bytes(found)
        return self.rng.randbytes(self.rng.choice((0, 1, 8, 41, 256, 5000)))

    def _damaged(self, value: Any) -> bytes:
        """Return the bytes with a byte or a number in them changed, cut off, or extended."""
        rng, found = self.rng, bytearray(value)
        choice = rng.randrange(6)
        if choice == 0 or not found:
            return rng.choice((b"", b"\x00" * 8, b"\xff" * 64, b"x" * 5000))
        if choice == 1:
            return bytes(found[: rng.randrange(len(found))])
        if choice == 2:
            return bytes(found + found[: rng.choice((1, 8, 33))])
        if choice < 5 and len(found) >= 8:
            at = rng.randrange(len(found) // 8) * 8
            number = rng.choice(NUMBERS) % 2**64
            found[at : at + 8] = number.to_bytes(8, "little")
            return bytes(found)
        found[rng.randrange(len(found))] = rng.choice((0, 1, 127, 128, 255))
        return bytes(found)


def _bounds(info: inspect.IntType) -> list[int]:
    """Return the first and the last numbers that a field may have, and those beyond."""
    least = -(2**63) if info.ge is None else info.ge
    most = 2**64 - 1 if info.le is None else info.le
    near = (least, least + 1, most - 1, most, least - 1, most + 1)
    return [number for number in near if -(2**63) <= number < 2**64]


_types: dict[type, inspect.Type] = {}


def type_of(kind: type) -> inspect.Type:
    found = _types.get(kind)
    if found is None:
        found = _types[kind] = inspect.type_info(kind)
    return found


def leaves(info: inspect.Type) -> int:
    """Return how many places there are in a value of a type that can be changed by themselves."""
    match info:
        case inspect.StructType():
            return sum(leaves(field.type) for field in info.fields)
        case inspect.VarTupleType():
            return 1 + leaves(info.item_type)
        case inspect.TupleType():
            return sum(map(leaves, info.item_types))
    return 1


def is_compound(info: inspect.Type) -> bool:
    return isinstance(info, (inspect.StructType, inspect.VarTupleType, inspect.TupleType))
