"""Tables for people, JSON for machines. Results go to stdout, talk to stderr."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def say(text: str) -> None:
    """A line for the person watching."""
    print(text, file=sys.stderr, flush=True)


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

    table = Table(*heads, show_lines=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
