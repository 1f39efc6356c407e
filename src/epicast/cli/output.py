"""Tables for people, JSON for machines. Results go to stdout, talk to stderr.

Names, descriptions and errors come from servers, peers and files. What is written here is escaped,
so that none of them can give the terminal orders; commands print results nowhere else.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def print_line(text: str) -> None:
    """Print a line of the result."""
    print(_escaped(text, keep="\n"))


def say(text: str) -> None:
    """A line for the person watching."""
    print(_escaped(text, keep="\n"), file=sys.stderr, flush=True)


def write_lines(lines: bytes) -> None:
    """Write keys and values to stdout as they are, except to a terminal, for which they are
    escaped as well."""
    if sys.stdout.isatty():
        text = lines.decode(errors="backslashreplace").replace("\r\n", "\n")
        lines = _escaped(text, keep="\n\t").encode()
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()


def bytes_field(name: str, value: bytes) -> dict[str, str]:
    """As text where it is text."""
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(value).decode()}


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Cells are plain text: square brackets in them mean nothing."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=False)
    for head in heads:
        table.add_column(Text(_escaped(head)))
    for row in rows:
        table.add_row(*(Text(_escaped(cell, keep="\n")) for cell in row))
    Console().print(table)


def _escaped(text: str, keep: str = "") -> str:
    if text.isprintable():
        return text
    from epicast.core.printable import printable

    return printable(text, keep)
