"""Predicates as bytes, the same everywhere for equal predicates, inside the payload of GC events.

A payload is the length of the predicate, the predicate, and whatever the application has to say
besides. Numbers are little-endian base 128. A predicate is a version and a tree in prefix order.
"""

from __future__ import annotations

from epicast.log.errors import PredicateError
from epicast.log.predicate.ast import (
    MAX_DEPTH,
    MAX_ENCODED_BYTES,
    MAX_KEYS,
    MAX_NODES,
    MAX_NUMBER,
    And,
    KeyIn,
    KeyPrefix,
    Not,
    Or,
    Predicate,
    PublishedBefore,
    SeqBelow,
    SizeBelow,
    both,
    check_bounds,
    either,
    key_in,
    negate,
)

VERSION = 1
_KEY_IN, _KEY_PREFIX, _SEQ_BELOW, _PUBLISHED_BEFORE, _SIZE_BELOW = 1, 2, 3, 4, 5
_NOT, _AND, _OR = 16, 17, 18


def encode(predicate: Predicate) -> bytes:
    check_bounds(predicate)
    out = bytearray([VERSION])
    _put(out, predicate)
    if len(out) > MAX_ENCODED_BYTES:
        raise PredicateError(0, f"at most {MAX_ENCODED_BYTES} bytes encoded", str(len(out)))
    return bytes(out)


def decode(encoded: bytes) -> Predicate:
    """Raises `PredicateError` on anything `encode` would not have written."""
    if len(encoded) > MAX_ENCODED_BYTES:
        raise PredicateError(0, f"at most {MAX_ENCODED_BYTES} bytes", str(len(encoded)))
    reader = _Reader(encoded)
    version = reader.byte("a version")
    if version != VERSION:
        raise PredicateError(0, f"version {VERSION}", str(version))
    predicate = reader.node(1)
    if reader.at != len(encoded):
        raise PredicateError(reader.at, "the end", f"{len(encoded) - reader.at} more bytes")
    if encode(predicate) != encoded:
        raise PredicateError(0, "the canonical form", "another one")
    return predicate


def gc_payload(predicate: Predicate, data: bytes = b"") -> bytes:
    """The payload of a GC event."""
    encoded = encode(predicate)
    out = bytearray()
    _put_number(out, len(encoded))
    return bytes(out) + encoded + data


def split_gc_payload(payload: bytes) -> tuple[Predicate, bytes]:
    """The predicate and the application's own bytes of the payload of a GC event."""
    reader = _Reader(payload)
    encoded = reader.taken(reader.number("the length of a predicate"), "a predicate")
    return decode(encoded), payload[reader.at :]


def _put_number(out: bytearray, number: int) -> None:
    if not 0 <= number <= MAX_NUMBER:
        raise PredicateError(0, f"a number between 0 and {MAX_NUMBER}", str(number))
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _put_bytes(out: bytearray, value: bytes) -> None:
    _put_number(out, len(value))
    out += value


def _put(out: bytearray, node: Predicate) -> None:
    match node:
        case KeyIn(keys):
            out.append(_KEY_IN)
            _put_number(out, len(keys))
            for key in keys:
                _put_bytes(out, key)
        case KeyPrefix(prefix):
            out.append(_KEY_PREFIX)
            _put_bytes(out, prefix)
        case SeqBelow(bound):
            out.append(_SEQ_BELOW)
            _put_number(out, bound)
        case PublishedBefore(time):
            out.append(_PUBLISHED_BEFORE)
            _put_number(out, time)
        case SizeBelow(bound):
            out.append(_SIZE_BELOW)
            _put_number(out, bound)
        case Not(child):
            out.append(_NOT)
            _put(out, child)
        case And(children) | Or(children):
            out.append(_AND if isinstance(node, And) else _OR)
            _put_number(out, len(children))
            for child in children:
                _put(out, child)


class _Reader:
    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded
        self.at = 0
        self.nodes = 0

    def taken(self, count: int, what: str) -> bytes:
        part = self.encoded[self.at : self.at + count]
        if len(part) < count:
            raise PredicateError(self.at, f"{what} of {count} bytes", f"{len(part)} bytes")
        self.at += count
        return part

    def byte(self, what: str) -> int:
        return self.taken(1, what)[0]

    def number(self, what: str) -> int:
        value = shift = 0
        while True:
            part = self.byte(what)
            value |= (part & 0x7F) << shift
            shift += 7
            if value > MAX_NUMBER or (shift > 63 and part & 0x80):
                raise PredicateError(self.at, f"{what} up to {MAX_NUMBER}", "a larger one")
            if part < 0x80:
                return value

    def count(self, what: str, least: int, most: int) -> int:
        value = self.number(what)
        if not least <= value <= most:
            raise PredicateError(self.at, f"{least} to {most} {what}", str(value))
        return value

    def node(self, depth: int) -> Predicate:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise PredicateError(self.at, "a smaller tree", f"more than {MAX_NODES} nodes or deep")
        at = self.at
        kind = self.byte("a condition")
        match kind:
            case 1:
                count = self.count("keys", 1, MAX_KEYS)
                return key_in(
                    [self.taken(self.number("a key's length"), "a key") for _ in range(count)]
                )
            case 2:
                return KeyPrefix(self.taken(self.number("a prefix's length"), "a prefix"))
            case 3:
                return SeqBelow(self.number("a sequence number"))
            case 4:
                return PublishedBefore(self.number("a time"))
            case 5:
                return SizeBelow(self.number("a size"))
            case 16:
                return negate(self.node(depth + 1))
            case 17 | 18:
                count = self.count("conditions", 2, MAX_NODES)
                children = [self.node(depth + 1) for _ in range(count)]
                return both(children) if kind == _AND else either(children)
        raise PredicateError(at, "a kind of condition", str(kind))
