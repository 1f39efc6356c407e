"""The predicates of GC events as immutable trees, always in canonical form.

Two predicates are equal exactly if their trees are. To make that mean something, equal ones are
built equal: `both` and `either` flatten, sort and drop repetitions, exact keys joined by `or` are
one set, and every comparison is spelled with `<`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from epicast.log.errors import PredicateError

MAX_NODES = 256
MAX_DEPTH = 16
MAX_KEYS = 1024
MAX_ENCODED_BYTES = 1 << 16
MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KeyIn:
    """The key is one of these: sorted, without repetition."""

    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class KeyPrefix:
    prefix: bytes


@dataclass(frozen=True, slots=True)
class SeqBelow:
    bound: int


@dataclass(frozen=True, slots=True)
class PublishedBefore:
    """The owner's time, in nanoseconds, is before this."""

    time: int


@dataclass(frozen=True, slots=True)
class SizeBelow:
    """The payload has fewer bytes than this."""

    bound: int


@dataclass(frozen=True, slots=True)
class Not:
    child: Predicate


@dataclass(frozen=True, slots=True)
class And:
    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    children: tuple[Predicate, ...]


Predicate: TypeAlias = KeyIn | KeyPrefix | SeqBelow | PublishedBefore | SizeBelow | Not | And | Or


def key_in(keys: Iterable[bytes]) -> Predicate:
    return KeyIn(tuple(sorted(set(keys))))


def negate(child: Predicate) -> Predicate:
    return child.child if isinstance(child, Not) else Not(child)


def both(children: Iterable[Predicate]) -> Predicate:
    return _joined(And, children)


def either(children: Iterable[Predicate]) -> Predicate:
    flat = [part for child in children for part in _parts(Or, child)]
    keys = [key for part in flat if isinstance(part, KeyIn) for key in part.keys]
    rest = [part for part in flat if not isinstance(part, KeyIn)]
    return _joined(Or, [key_in(keys), *rest] if keys else rest)


def check_bounds(predicate: Predicate) -> None:
    """Raise `PredicateError` if the tree is larger than a proxy is willing to evaluate."""
    nodes = keys = deepest = 0
    waiting: list[tuple[Predicate, int]] = [(predicate, 1)]
    while waiting:
        node, depth = waiting.pop()
        nodes += 1
        deepest = max(deepest, depth)
        if isinstance(node, KeyIn):
            keys += len(node.keys)
        elif isinstance(node, Not):
            waiting.append((node.child, depth + 1))
        elif isinstance(node, And | Or):
            waiting.extend((child, depth + 1) for child in node.children)
        if nodes > MAX_NODES:
            raise PredicateError(0, f"at most {MAX_NODES} conditions", "more")
    if deepest > MAX_DEPTH:
        raise PredicateError(0, f"at most {MAX_DEPTH} levels", str(deepest))
    if keys > MAX_KEYS:
        raise PredicateError(0, f"at most {MAX_KEYS} keys", str(keys))


def _parts(kind: type[And | Or], node: Predicate) -> tuple[Predicate, ...]:
    return node.children if isinstance(node, kind) else (node,)


def _joined(kind: type[And | Or], children: Iterable[Predicate]) -> Predicate:
    flat = {part for child in children for part in _parts(kind, child)}
    if len(flat) == 1:
        return flat.pop()
    # Any order will do that is the same everywhere; sets have none.
    return kind(tuple(sorted(flat, key=_order)))


def _order(node: Predicate) -> tuple[Any, ...]:
    match node:
        case KeyIn(keys):
            return (1, keys)
        case KeyPrefix(prefix):
            return (2, prefix)
        case SeqBelow(number):
            return (3, number)
        case PublishedBefore(number):
            return (4, number)
        case SizeBelow(number):
            return (5, number)
        case Not(child):
            return (6, _order(child))
        case And(children):
            return (7, *map(_order, children))
        case Or(children):
            return (8, *map(_order, children))
