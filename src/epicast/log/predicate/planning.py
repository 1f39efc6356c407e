"""What can be said about a predicate without looking at a row."""

from __future__ import annotations

from dataclasses import dataclass

from epicast.log.predicate.ast import And, KeyIn, KeyPrefix, Not, Or, Predicate, SeqBelow


@dataclass(frozen=True, slots=True)
class Plan:
    keys: tuple[bytes, ...] | None
    """Only events with one of these keys can match; None if that is not so."""
    seq_below: int | None
    """Only events below this number can match."""
    is_keys: bool
    """Exactly the events with one of `keys` match."""
    is_seq_below: bool
    """Exactly the events below `seq_below` match."""
    is_closed: bool
    """If it matches an event with a key, it matches all older events with that key."""


def plan(predicate: Predicate) -> Plan:
    return Plan(
        _keys(predicate),
        _seq_below(predicate),
        isinstance(predicate, KeyIn),
        isinstance(predicate, SeqBelow),
        _is_closed(predicate),
    )


def _keys(node: Predicate) -> tuple[bytes, ...] | None:
    match node:
        case KeyIn(keys):
            return keys
        case And(children):
            known = [keys for keys in map(_keys, children) if keys is not None]
            return min(known, key=len) if known else None
        case Or(children):
            found = list(map(_keys, children))
            every = [keys for keys in found if keys is not None]
            if len(every) < len(found):
                return None
            return tuple(sorted({key for keys in every for key in keys}))
    return None


def _seq_below(node: Predicate) -> int | None:
    match node:
        case SeqBelow(bound):
            return bound
        case And(children):
            known = [bound for bound in map(_seq_below, children) if bound is not None]
            return min(known) if known else None
        case Or(children):
            found = list(map(_seq_below, children))
            every = [bound for bound in found if bound is not None]
            return max(every) if len(every) == len(found) else None
    return None


def _is_closed(node: Predicate) -> bool:
    """Made of tests of the key, which older events with the key pass alike, and of `seq <`."""
    match node:
        case SeqBelow():
            return True
        case And(children) | Or(children):
            return all(map(_is_closed, children))
    return _is_about_keys(node)


def _is_about_keys(node: Predicate) -> bool:
    match node:
        case KeyIn() | KeyPrefix():
            return True
        case Not(child):
            return _is_about_keys(child)
        case And(children) | Or(children):
            return all(map(_is_about_keys, children))
    return False
