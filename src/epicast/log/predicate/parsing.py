"""Predicates as people write them. `docs/log-format.md` has the grammar.

    key == "user/42"         key in ("a", "b")       key prefix "tmp/"       key == x"00ff"
    seq < 1000               published_before "2026-01-31T12:00:00Z"         size >= 4096
    not (key prefix "keep/") and size > 100 or key == "x"

`and` binds closer than `or`, `not` closer than both. A time without quotes is in nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from epicast.log.errors import PredicateError
from epicast.log.predicate.ast import (
    MAX_DEPTH,
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

MAX_TEXT = 1 << 16
_TOKEN = re.compile(
    r"""\s*(?:(?P<hex>x"[^"]*"|x'[^']*')
            |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
            |(?P<number>[0-9][0-9_]*)
            |(?P<word>[a-z_]+)
            |(?P<sign>==|!=|<=|>=|[<>(),])
            |(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", '"': b'"', "'": b"'"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)|[^\\]+", re.DOTALL)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


def parse(text: str) -> Predicate:
    """Raises `PredicateError`, which names the position and what was expected there."""
    if len(text) > MAX_TEXT:
        raise PredicateError(MAX_TEXT, f"at most {MAX_TEXT} characters", str(len(text)))
    parser = _Parser(_tokens(text))
    predicate = parser.alternatives(1)
    parser.expect("end", "`and`, `or` or the end")
    check_bounds(predicate)
    return predicate


def describe(predicate: Predicate) -> str:
    """Text that parses to the same predicate."""
    match predicate:
        case KeyIn((key,)):
            return f"key == {_quoted(key)}"
        case KeyIn(keys):
            return f"key in ({', '.join(map(_quoted, keys))})"
        case KeyPrefix(prefix):
            return f"key prefix {_quoted(prefix)}"
        case SeqBelow(bound):
            return f"seq < {bound}"
        case PublishedBefore(time):
            return f"published_before {time}"
        case SizeBelow(bound):
            return f"size < {bound}"
        case Not(child):
            return f"not ({describe(child)})"
        case And(children):
            return " and ".join(f"({describe(child)})" for child in children)
        case Or(children):
            return " or ".join(f"({describe(child)})" for child in children)


def _quoted(value: bytes) -> str:
    if value.isascii() and value.decode("ascii").isprintable():
        return '"' + value.decode("ascii").replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f'x"{value.hex()}"'


def _tokens(text: str) -> list[_Token]:
    tokens = []
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        if found is None:
            at = len(text) - len(text[at:].lstrip())
            raise PredicateError(at, "a condition, a value or a sign", repr(text[at : at + 10]))
        kind = found.lastgroup or "end"
        tokens.append(_Token(kind, found.group(kind), found.start(kind)))
        if kind == "end":
            return tokens
        at = found.end()


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    @property
    def token(self) -> _Token:
        return self._tokens[self._next]

    def fail(self, expected: str) -> PredicateError:
        return PredicateError(self.token.at, expected, str(self.token))

    def accept(self, *texts: str) -> str:
        """Take the next token if it is one of these words or signs."""
        token = self.token
        if token.kind in ("word", "sign") and token.text in texts:
            self._next += 1
            return token.text
        return ""

    def expect(self, kind: str, expected: str) -> _Token:
        token = self.token
        if token.kind != kind:
            raise self.fail(expected)
        self._next += token.kind != "end"
        return token

    def sign(self, *signs: str) -> str:
        return self.accept(*signs) or self._refuse(" or ".join(f"`{sign}`" for sign in signs))

    def _refuse(self, expected: str) -> str:
        raise self.fail(expected)

    def alternatives(self, depth: int) -> Predicate:
        parts = [self.conjunction(depth)]
        while self.accept("or"):
            parts.append(self.conjunction(depth))
        return either(parts)

    def conjunction(self, depth: int) -> Predicate:
        parts = [self.factor(depth)]
        while self.accept("and"):
            parts.append(self.factor(depth))
        return both(parts)

    def factor(self, depth: int) -> Predicate:
        if depth > MAX_DEPTH:
            raise self.fail(f"at most {MAX_DEPTH} levels of `not` and parentheses")
        if self.accept("not"):
            return negate(self.factor(depth + 1))
        if self.accept("("):
            inside = self.alternatives(depth + 1)
            self.sign(")")
            return inside
        return self.condition()

    def condition(self) -> Predicate:
        conditions: dict[str, Callable[[], Predicate]] = {
            "key": self.key,
            "seq": self.seq,
            "published_before": self.published_before,
            "size": self.size,
        }
        name = self.accept(*conditions)
        if not name:
            raise self.fail("`key`, `seq`, `published_before`, `size`, `not` or `(`")
        return conditions[name]()

    def key(self) -> Predicate:
        operator = self.sign("==", "!=", "in", "prefix")
        if operator == "prefix":
            return KeyPrefix(self.value())
        if operator != "in":
            only = key_in([self.value()])
            return only if operator == "==" else negate(only)
        self.sign("(")
        keys = [self.value()]
        while self.sign(",", ")") == ",":
            keys.append(self.value())
        return key_in(keys)

    def seq(self) -> Predicate:
        self.sign("<")
        return SeqBelow(self.number("a sequence number"))

    def published_before(self) -> Predicate:
        if self.token.kind != "text":
            return PublishedBefore(self.number("nanoseconds or a quoted time"))
        at = self.token
        written = self.value().decode("utf-8", "replace")
        try:
            moment = datetime.fromisoformat(written) - _EPOCH
        except (ValueError, TypeError):
            raise PredicateError(at.at, 'a time like "2026-01-31T12:00:00Z"', str(at)) from None
        return PublishedBefore(max(0, moment // timedelta(microseconds=1) * 1000))

    def size(self) -> Predicate:
        operator = self.sign("<", "<=", ">", ">=", "==", "!=")
        bound = self.number("a number of bytes")
        below, below_next = SizeBelow(bound), SizeBelow(min(bound + 1, MAX_NUMBER))
        match operator:
            case "<":
                return below
            case "<=":
                return below_next
            case ">":
                return negate(below_next)
            case ">=":
                return negate(below)
            case "==":
                return both([below_next, negate(below)])
        return either([below, negate(below_next)])

    def number(self, what: str) -> int:
        token = self.expect("number", what)
        number = int(token.text.replace("_", "")) if len(token.text) < 40 else MAX_NUMBER + 1
        if number > MAX_NUMBER:
            raise PredicateError(token.at, f"{what} up to {MAX_NUMBER}", token.text[:40])
        return number

    def value(self) -> bytes:
        token = self.token
        if token.kind == "hex":
            self._next += 1
            try:
                return bytes.fromhex(token.text[2:-1])
            except ValueError:
                raise PredicateError(token.at, "pairs of hexadecimal digits", str(token)) from None
        self.expect("text", "a quoted value")
        return b"".join(_unescaped(piece, token) for piece in _ESCAPE.finditer(token.text[1:-1]))


def _unescaped(piece: re.Match[str], token: _Token) -> bytes:
    escape = piece.group(1)
    if escape is None:
        return piece.group().encode("utf-8", "surrogatepass")
    if escape[0] == "x" and len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    if escape not in _ESCAPES:
        known = "one of \\n \\t \\r \\0 \\\\ \\\" \\' \\xNN"
        raise PredicateError(token.at + 1 + piece.start(), known, f"\\{escape}")
    return _ESCAPES[escape]
