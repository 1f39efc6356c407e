"""Walk a parsed document along its type: find every problem, turn quantities into numbers.

msgspec alone stops at the first problem and knows neither units nor near misses, so the walk comes
first and leaves msgspec a tree that fits. Each struct is still built once on the way, so that the
checks in its `__post_init__` are reported at the table they belong to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import inspect

from epicast.core.errors import ConfigError
from epicast.deployment import expectations
from epicast.deployment.expectations import bare, expected, quantity_of
from epicast.deployment.positions import Path
from epicast.deployment.problems import Problem, ProblemsFound
from epicast.deployment.quantity import Quantity, shown

_TABLES = inspect.StructType | inspect.DictType
_ARRAYS = inspect.CollectionType | inspect.TupleType
_MSGSPEC_PATH = re.compile(r"(?P<what>.*) - at `\$(?:\.(?P<key>[A-Za-z0-9_-]+))?.*`", re.DOTALL)


class Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def read(self, node: inspect.Type, value: Any, path: Path) -> Any:
        """`value` with every quantity replaced by its number; problems are noted, not raised."""
        quantity = quantity_of(node)
        if quantity is not None:
            return self._quantity(node, quantity, value, path)
        node = bare(node)
        match node:
            case inspect.UnionType():
                return self._union(node, value, path)
            case inspect.StructType() if isinstance(value, dict):
                return self._struct(node, value, path)
            case inspect.DictType() if isinstance(value, dict):
                return self._dict(node, value, path)
            case inspect.TupleType() if isinstance(value, list):
                if len(value) != len(node.item_types):
                    self._reject(path, expected(node), str(len(value)))
                    return value
                items = zip(node.item_types, value, strict=True)
                return [self.read(kind, item, (*path, i)) for i, (kind, item) in enumerate(items)]
            case inspect.CollectionType() if isinstance(value, list):
                if not expectations.fits_in_size(node, len(value)):
                    self._reject(path, expected(node), str(len(value)))
                return [self.read(node.item_type, v, (*path, i)) for i, v in enumerate(value)]
        if not expectations.accepts(node, value):
            self._reject(path, expected(node), shown(value) + _near_choice(node, value))
        return value

    def _reject(self, path: Path, wanted: str, found: str) -> None:
        self._note(path, f"expected {wanted}, found {found}")

    def _note(self, path: Path, message: str) -> None:
        self.problems.append(Problem(path, message))

    def _quantity(self, node: inspect.Type, quantity: Quantity, value: Any, path: Path) -> Any:
        try:
            number = quantity.parse(value)
        except ConfigError as error:
            self._note(path, str(error))
            return value
        if not expectations.within_bounds(bare(node), number):
            self._reject(path, expected(node), shown(value))
        return number

    def _union(self, node: inspect.UnionType, value: Any, path: Path) -> Any:
        """Follow the one alternative that can be meant, so that its problems are told in full."""
        kinds = expectations.alternatives(node)
        if isinstance(value, dict):
            kinds = [kind for kind in kinds if isinstance(bare(kind), _TABLES)]
            structs = [kind for kind in map(bare, kinds) if isinstance(kind, inspect.StructType)]
            if len(structs) == len(kinds) > 1:
                return self._tagged(structs, value, path)
        elif isinstance(value, list):
            kinds = [kind for kind in kinds if isinstance(bare(kind), _ARRAYS)]
        else:
            kinds = [kind for kind in kinds if not isinstance(bare(kind), _TABLES | _ARRAYS)]
        if len(kinds) == 1:
            return self.read(kinds[0], value, path)
        for kind in kinds:
            attempt = Reader()
            result = attempt.read(kind, value, path)
            if not attempt.problems:
                return result
        self._reject(path, expected(node), shown(value))
        return value

    def _tagged(self, kinds: list[inspect.StructType], value: dict[str, Any], path: Path) -> Any:
        field = kinds[0].tag_field
        assert field is not None, "msgspec insists on tags in a union of structs"
        by_tag = {kind.tag: kind for kind in kinds}
        names = ", ".join(repr(tag) for tag in by_tag)
        if field not in value:
            self._note(path, f"missing key '{field}': expected one of {names}")
            return value
        tag = value[field]
        if not isinstance(tag, str | int) or tag not in by_tag:
            hint = _did_you_mean(_near(tag, map(str, by_tag)))
            self._reject((*path, field), f"one of {names}", shown(tag) + hint)
            return value
        return self._struct(by_tag[tag], value, path)

    def _struct(self, node: inspect.StructType, value: dict[str, Any], path: Path) -> Any:
        problems_before = len(self.problems)
        fields = {field.encode_name: field for field in node.fields}
        known = [*([node.tag_field] if node.tag_field else []), *fields]
        missing = [name for name in known if name not in value]
        tree = {}
        for key, item in value.items():
            if key in fields:
                tree[key] = self.read(fields[key].type, item, (*path, key))
            elif key == node.tag_field:
                tree[key] = item
            else:
                meant = _near(key, missing)
                hint = _did_you_mean(meant) or f"; known keys: {', '.join(known) or 'none'}"
                self._note((*path, key), f"unknown key{hint}")
                missing = [name for name in missing if name != meant]
        for name in missing:
            if name in fields and fields[name].required:
                self._note(path, f"missing key '{name}': expected {expected(fields[name].type)}")
        if len(self.problems) == problems_before:
            self._build(node.cls, tree, path)
        return tree

    def _build(self, struct: type, tree: dict[str, Any], path: Path) -> None:
        try:
            msgspec.convert(tree, struct)
        except msgspec.ValidationError as error:
            match = _MSGSPEC_PATH.fullmatch(str(error))
            key = match["key"] if match else None
            self._note((*path, key) if key else path, match["what"] if match else str(error))
        except ProblemsFound as found:
            for below, message in found.problems:
                self._note((*path, *below), message)
        except ConfigError as error:
            self._note(path, str(error))

    def _dict(self, node: inspect.DictType, value: dict[str, Any], path: Path) -> Any:
        if not expectations.fits_in_size(node, len(value)):
            self._reject(path, expected(node), str(len(value)))
        for key in value:
            if not expectations.accepts(node.key_type, key):
                self._reject((*path, key), f"as key {expected(node.key_type)}", repr(key))
        return {k: self.read(node.value_type, item, (*path, k)) for k, item in value.items()}


def _near_choice(node: inspect.Type, value: object) -> str:
    if isinstance(node, inspect.LiteralType | inspect.EnumType):
        return _did_you_mean(_near(value, map(str, expectations.choices(node))))
    return ""


def _near(word: object, known: Iterable[str]) -> str | None:
    near = get_close_matches(word, list(known), n=1) if isinstance(word, str) else []
    return near[0] if near else None


def _did_you_mean(word: str | None) -> str:
    return f"; did you mean '{word}'?" if word else ""
