"""The line finder against two judges: a writer that knows its lines, and tomllib's own reading."""

import tomllib
from collections.abc import Iterator
from datetime import date, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epicast.deployment.positions import Path, key_lines

TEXT = '''\
# comment with [brackets] = "and quotes
title = "a # b"        # line 2
[network]
latency = "10ms"
nested = { loss = 0.1, deep.er = [1, { x = 2 }] }

[network."eu west".inner]   # line 7
k.'l m'.n = 1
list = [
  1,  # one ]
  [2,
   3],
  """four
five""",
]
[[faults]]   # line 16
kind = """
]] [x] key = 1 \\""" """
at = \'\'\'
it''s [[\'\'\'
[[faults]]   # line 21
kind = 'literal \\'
[[faults.steps]]
a = 1979-05-27 07:32:00
[[faults.steps]]
[faults.steps.more]
z = true
[late]
"q\\u0041" = -inf
'''


def paths(value: object, path: Path = ()) -> Iterator[Path]:
    """Every path of a parsed document."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield (*path, index)
            yield from paths(item, (*path, index))


def test_lines_of_a_rich_document() -> None:
    lines = key_lines(TEXT)
    assert set(lines) == set(paths(tomllib.loads(TEXT)))
    wanted = {
        ("title",): 2,
        ("network",): 3,
        ("network", "latency"): 4,
        ("network", "nested", "deep", "er", 1, "x"): 5,
        ("network", "eu west"): 7,
        ("network", "eu west", "inner", "k", "l m", "n"): 8,
        ("network", "eu west", "inner", "list"): 9,
        ("network", "eu west", "inner", "list", 0): 10,
        ("network", "eu west", "inner", "list", 1, 1): 12,
        ("network", "eu west", "inner", "list", 2): 13,
        ("faults",): 16,
        ("faults", 0, "at"): 19,
        ("faults", 1): 21,
        ("faults", 1, "kind"): 22,
        ("faults", 1, "steps", 0, "a"): 24,
        ("faults", 1, "steps", 1): 25,
        ("faults", 1, "steps", 1, "more", "z"): 27,
        ("late", "qA"): 29,
    }
    assert {path: lines[path] for path in wanted} == wanted


def test_a_header_outranks_an_earlier_mention() -> None:
    lines = key_lines("[a.b]\nx = 1\n[a]\ny = 2\n")
    assert (lines[("a",)], lines[("a", "b")], lines[("a", "y")]) == (3, 1, 4)


def test_carriage_returns_and_odd_separators_do_not_shift_lines() -> None:
    assert key_lines('a = "\u2028\x85"\r\nb = 1\r\n')[("b",)] == 2


FRAGMENTS = [
    "a", "b", "'q'", '"r"', ".", " = ", "1", "true", '"s"', "'t'", '"""u\nv"""', "'''w\n'x'''",
    '""', "''", '""""""', '"\\""', "[", "]", "[[", "]]", "{", "}", ", ", "\n", "\n\n", "# c ]\n",
    "1979-05-27 07:32:00", "a = 1\n", "[t]\n", "[[t]]\n", "[[t.u]]\n", "[t.u]\n", "b = [1, 2]\n",
    "c = {d = 1}\n", "e.f = [{g = 1}, [\n2]]\n",
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join))
@example('a = """\\""""""\nb = 1')
@example("a = '''x'''''\nb = 1")
def test_finds_what_tomllib_finds(text: str) -> None:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = key_lines(text)
    assert set(lines) == set(paths(document))
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


SCALARS = st.one_of(
    st.integers(-(10**9), 10**9),
    st.booleans(),
    st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=8),
    st.dates().map(lambda day: day),
)
KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1, max_size=4)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)
DOCUMENTS = st.dictionaries(
    KEYS, st.one_of(VALUES, TABLES, st.lists(TABLES, min_size=1, max_size=3)), max_size=4
)


class Writer:
    """Writes a document in randomly chosen forms and remembers the line of each key."""

    def __init__(self, draw: st.DataObject) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[Path, int] = {}

    def chance(self) -> bool:
        return self.draw.draw(st.booleans())

    def here(self) -> int:
        return self.text.count("\n") + 1

    def key(self, key: str) -> None:
        plain = key.isascii() and key.replace("_", "").isalnum()
        self.text += key if plain and self.chance() else _basic(key)

    def value(self, value: object, path: Path) -> None:
        if isinstance(value, bool):
            self.text += str(value).lower()
        elif isinstance(value, (int, date, datetime)):
            self.text += str(value)
        elif isinstance(value, str):
            literal = "\n" not in value and "'" not in value and value.isprintable()
            if literal and self.chance():
                self.text += f"'{value}'"
            elif self.chance():
                self.text += f'"""\n{_basic(value)[1:-1]}"""'
            else:
                self.text += _basic(value)
        elif isinstance(value, list):
            self.text += "["
            for index, item in enumerate(value):
                self.text += "\n# ]\n  " if self.chance() else ""
                self.lines[(*path, index)] = self.here()
                self.value(item, (*path, index))
                self.text += ","
            self.text += "]"
        elif isinstance(value, dict):
            self.text += "{"
            for index, (key, item) in enumerate(value.items()):
                self.text += ", " if index else " "
                self.lines[(*path, key)] = self.here()
                self.key(key)
                self.text += " = "
                self.value(item, (*path, key))
            self.text += " }"

    def pairs(self, table: dict[str, object], path: Path) -> None:
        for key, item in table.items():
            self.text += "\n# a = [1\n" if self.chance() else ""
            self.lines[(*path, key)] = self.here()
            self.key(key)
            self.text += "="
            self.value(item, (*path, key))
            self.text += "  # end\n" if self.chance() else "\n"

    def document(self, document: dict[str, object]) -> None:
        headed = {
            key: value
            for key, value in document.items()
            if (isinstance(value, dict) or _is_tables(value)) and self.chance()
        }
        self.pairs({key: value for key, value in document.items() if key not in headed}, ())
        for key, value in headed.items():
            for index, table in enumerate(value if isinstance(value, list) else [value]):
                path: Path = (key, index) if isinstance(value, list) else (key,)
                self.lines.setdefault((key,), self.here())
                self.lines[path] = self.here()
                brackets = ("[[", "]]") if isinstance(value, list) else ("[", "]")
                self.text += brackets[0]
                self.key(key)
                self.text += brackets[1] + "\n"
                self.pairs(table, path)


def _basic(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


@given(DOCUMENTS, st.data())
def test_agrees_with_a_writer_that_knows(document: dict[str, object], data: st.DataObject) -> None:
    writer = Writer(data)
    writer.document(document)
    assert tomllib.loads(writer.text) == document  # the writer itself is right
    assert key_lines(writer.text) == writer.lines


def test_deep_nesting_that_tomllib_accepts_is_no_problem() -> None:
    depth = next(depth for depth in range(600, 0, -10) if _parses("a=" + "[" * depth + "]" * depth))
    text = "a=" + "[" * depth + "]" * depth
    assert depth >= 100
    assert len(key_lines(text)) == depth


def _parses(text: str) -> bool:
    try:
        tomllib.loads(text)
    except RecursionError:
        return False
    return True


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment"])
def test_nothing_to_find(text: str) -> None:
    assert key_lines(text) == {}
