"""Where in a TOML text each key stands: the standard parser tells values, not lines.

`key_lines` expects text that `tomllib` accepts, which lets it be short: it only needs to find keys
and to step over values, never to judge them.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping

Path = tuple[str | int, ...]
"""Keys and array positions from the root of a document to one of its values."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BLANK_OR_COMMA = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*([A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*')[ \t]*""")
_SCALAR = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?:"{0,2})'''
    r"""|\'\'\'.*?\'\'\'(?:\'{0,2})"""
    r"""|"(?:\\.|[^"\\])*"|'[^']*'"""
    r"""|[^,\]}#\n]+""",
    re.DOTALL,
)


def key_lines(text: str) -> Mapping[Path, int]:
    """The line, counted from 1, of every key, table and array element."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self._line_starts = [match.end() for match in re.finditer("\n", text)]
        self._table_counts: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)

    def _header(self) -> Path:
        """Step over `[a.b]` or `[[a.b]]`; the path of the table it opens."""
        line = self._line()
        repeated = self.text.startswith("[[", self.at)
        self.at += 2 if repeated else 1
        *outer, last = self._keys()
        self.at += 2 if repeated else 1
        path: Path = ()
        for part in outer:
            path = self._newest((*path, part))
            self.lines.setdefault(path, line)
        path = (*path, last)
        if repeated:
            self.lines.setdefault(path, line)
            count = self._table_counts.get(path, 0)
            self._table_counts[path] = count + 1
            path = (*path, count)
        self.lines[path] = line
        return path

    def _newest(self, path: Path) -> Path:
        """A header that runs through an array of tables means the array's last table so far."""
        count = self._table_counts.get(path)
        return path if count is None else (*path, count - 1)

    def _pair(self, table: Path) -> None:
        line = self._line()
        path = table
        for part in self._keys():
            path = (*path, part)
            self.lines.setdefault(path, line)
        self.at += 1  # the equals sign
        self._value(path)

    def _keys(self) -> list[str]:
        keys = []
        while True:
            match = _KEY.match(self.text, self.at)
            assert match is not None, f"no key at offset {self.at} of text said to be TOML"
            self.at = match.end()
            keys.append(_unquoted(match[1]))
            if not self.text.startswith(".", self.at):
                return keys
            self.at += 1

    def _value(self, path: Path) -> None:
        self._skip(_BLANK)
        opening = self.text[self.at]
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline_table(path)
        else:
            self._skip(_SCALAR)

    def _array(self, path: Path) -> None:
        self.at += 1
        self._skip(_BLANK_OR_COMMA)
        index = 0
        while self.text[self.at] != "]":
            self.lines[(*path, index)] = self._line()
            self._value((*path, index))
            self._skip(_BLANK_OR_COMMA)
            index += 1
        self.at += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        self._skip(_BLANK_OR_COMMA)
        while self.text[self.at] != "}":
            self._pair(path)
            self._skip(_BLANK_OR_COMMA)
        self.at += 1

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        assert match is not None, f"no value at offset {self.at} of text said to be TOML"
        self.at = match.end()

    def _line(self) -> int:
        return bisect_right(self._line_starts, self.at) + 1


def _unquoted(key: str) -> str:
    if key[0] == '"':
        value: str = tomllib.loads(f"key = {key}")["key"]
        return value
    return key[1:-1] if key[0] == "'" else key
