"""What a field accepts, in words, and whether a plain value is among it."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

from msgspec import inspect

from epicast.deployment.quantity import Quantity

Bounded = inspect.IntType | inspect.FloatType


def quantity_of(node: inspect.Type) -> Quantity | None:
    """The quantity a field type was annotated with, if any."""
    if isinstance(node, inspect.Metadata) and node.extra:
        quantity = node.extra.get("quantity")
        return quantity if isinstance(quantity, Quantity) else None
    return None


def expected(node: inspect.Type) -> str:
    """ "an integer from 1 to 10", "a duration such as '150ms'", …"""
    quantity = quantity_of(node)
    if quantity is not None:
        bounds = bounds_in_words(bare(node), quantity)
        return f"a {quantity.noun}{bounds}" if bounds else f"a {quantity}"
    match bare(node):
        case inspect.IntType() as number:
            return "an integer" + bounds_in_words(number)
        case inspect.FloatType() as number:
            return "a number" + bounds_in_words(number)
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType() as text:
            return "text in quotes" + _text_rules(text)
        case inspect.LiteralType() | inspect.EnumType() as choice:
            values = [repr(value) for value in choices(choice)]
            return values[0] if len(values) == 1 else f"one of {', '.join(values)}"
        case inspect.StructType():
            return "a table"
        case inspect.DictType() as table:
            return "a table" + _size_rules(table)
        case inspect.TupleType() as row:
            return f"an array of {len(row.item_types)} values"
        case inspect.CollectionType() as array:
            return "an array" + _size_rules(array)
        case inspect.UnionType() as union:
            kinds = [expected(kind) for kind in alternatives(union)]
            return " or ".join(dict.fromkeys(kinds))
        case other:
            return type(other).__name__.removesuffix("Type").lower()


def bare(node: inspect.Type) -> inspect.Type:
    """The type without its annotations."""
    return bare(node.type) if isinstance(node, inspect.Metadata) else node


def alternatives(node: inspect.UnionType) -> list[inspect.Type]:
    """All but null, which TOML cannot say."""
    return [kind for kind in node.types if not isinstance(kind, inspect.NoneType)]


def choices(node: inspect.LiteralType | inspect.EnumType) -> list[Any]:
    if isinstance(node, inspect.LiteralType):
        return list(node.values)
    return [member.value for member in node.cls]


def accepts(node: inspect.Type, value: object) -> bool:
    """Whether a value that is neither table nor array fits; types unknown here accept all."""
    match node:
        case inspect.Metadata():
            return accepts(node.type, value)
        case inspect.IntType():
            return type(value) is int and within_bounds(node, value)
        case inspect.FloatType():
            return (
                isinstance(value, (int, float))
                and not isinstance(value, bool)
                and isfinite(value)
                and within_bounds(node, value)
            )
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.StrType():
            return isinstance(value, str) and _follows_text_rules(node, value)
        case inspect.LiteralType() | inspect.EnumType():
            return any(value == choice and type(value) is type(choice) for choice in choices(node))
        case inspect.StructType() | inspect.DictType() | inspect.NoneType():
            return False
        case inspect.TupleType() | inspect.CollectionType():
            return False
    return True


def within_bounds(node: inspect.Type, value: float) -> bool:
    if not isinstance(node, Bounded):
        return True
    return (
        (node.ge is None or value >= node.ge)
        and (node.gt is None or value > node.gt)
        and (node.le is None or value <= node.le)
        and (node.lt is None or value < node.lt)
        and (node.multiple_of is None or value % node.multiple_of == 0)
    )


def bounds_in_words(node: inspect.Type, quantity: Quantity | None = None) -> str:
    if not isinstance(node, Bounded):
        return ""

    def text(bound: float) -> str:
        return str(bound) if quantity is None else f"'{quantity.format(bound)}'"

    rules = []
    if node.ge is not None and node.le is not None:
        rules.append(f"from {text(node.ge)} to {text(node.le)}")
    else:
        rules += [f"of at least {text(node.ge)}"] if node.ge is not None else []
        rules += [f"of at most {text(node.le)}"] if node.le is not None else []
    rules += [f"above {text(node.gt)}"] if node.gt is not None else []
    rules += [f"below {text(node.lt)}"] if node.lt is not None else []
    rules += [f"divisible by {text(node.multiple_of)}"] if node.multiple_of is not None else []
    return f" {' and '.join(rules)}" if rules else ""


def fits_in_size(node: inspect.Type, size: int) -> bool:
    low, high = getattr(node, "min_length", None), getattr(node, "max_length", None)
    return (low is None or size >= low) and (high is None or size <= high)


def _size_rules(node: inspect.Type, noun: str = "entries") -> str:
    low, high = getattr(node, "min_length", None), getattr(node, "max_length", None)
    if low is None and high is None:
        return ""
    if high is None:
        return f" of at least {low} {noun}"
    return f" of {low or 0} to {high} {noun}"


def _text_rules(node: inspect.StrType) -> str:
    pattern = "" if node.pattern is None else f" matching {node.pattern}"
    return _size_rules(node, "characters") + pattern


def _follows_text_rules(node: inspect.StrType, value: str) -> bool:
    matches = node.pattern is None or re.search(node.pattern, value) is not None
    return matches and fits_in_size(node, len(value))
