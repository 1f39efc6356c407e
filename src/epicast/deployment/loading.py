"""Text of a TOML document in, validated struct out, or one error that names every problem."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from epicast.core.errors import ConfigError
from epicast.deployment.positions import Path, key_lines
from epicast.deployment.problems import Problem
from epicast.deployment.reading import Reader

StructT = TypeVar("StructT", bound=msgspec.Struct)

MAX_PROBLEMS_SHOWN = 20
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SYNTAX_ERROR = re.compile(r"(?P<what>.*) \(at line (?P<line>\d+), column (?P<column>\d+)\)")


def load_document(text: str, source_name: str, struct_type: type[StructT]) -> StructT:
    """Read `text` as a `struct_type`; `source_name` is what errors call it, best its path.

    Raises `ConfigError` with one line per problem, in the order of the lines of the text:
    `wan.toml:12: network.loss: expected a fraction such as '5%' …, found 5`.
    """
    document = _parse(text, source_name)
    reader = Reader()
    tree = reader.read(_type_info(struct_type), document, ())
    if reader.problems:
        raise ConfigError(_listing(source_name, text, reader.problems))
    return msgspec.convert(tree, struct_type)


def load_section(
    text: str,
    source_name: str,
    key: str | Path,
    struct_type: type[StructT],
    check: Callable[[StructT], Iterable[Problem]] = lambda _: (),
) -> StructT:
    """Read the one table `key` of a document (nothing, if it is not there) as a `struct_type`; a
    table inside others is named by its path.

    For documents whose parts are understood by different packages: who loads the whole keeps the
    table as it is, who knows its type reads it with this and reports problems just as precisely.
    `check` finds what only the rest of the document shows, with paths relative to the table.
    """
    reader = Reader()
    path: Path = (key,) if isinstance(key, str) else key
    table: Any = _parse(text, source_name)
    for part in path:
        table = table.get(part, {})
    tree = reader.read(_type_info(struct_type), table, path)
    problems = reader.problems
    if not problems:
        section = msgspec.convert(tree, struct_type)
        problems = [Problem((*path, *below), message) for below, message in check(section)]
        if not problems:
            return section
    raise ConfigError(_listing(source_name, text, problems))


def _parse(text: str, source_name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{source_name}: tables or arrays are nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, and integers beyond Python's digit limit
        raise ConfigError(_syntax_error(source_name, text, str(error))) from None


@cache
def _type_info(struct_type: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(struct_type)


def _syntax_error(source_name: str, text: str, message: str) -> str:
    match = _SYNTAX_ERROR.fullmatch(message)
    if match is not None:
        place, what = f"{match['line']}:{match['column']}", match["what"]
    elif message.endswith("(at end of document)"):
        place, what = str(text.rstrip("\n").count("\n") + 1), message
    else:
        return f"{source_name}: not valid TOML: {message}"
    return f"{source_name}:{place}: not valid TOML: {what}"


def _listing(source_name: str, text: str, problems: list[Problem]) -> str:
    lines = key_lines(text)

    def line(path: Path) -> int | None:
        while path and path not in lines:
            path = path[:-1]
        return lines.get(path)

    located = sorted(((line(problem.path) or 0, problem) for problem in problems), key=_line_only)
    shown = [
        f"{source_name}{f':{at}' if at else ''}: {_key_path(path)}{message}"
        for at, (path, message) in located[:MAX_PROBLEMS_SHOWN]
    ]
    if len(located) > len(shown):
        shown.append(f"{source_name}: and {len(located) - len(shown)} more problems")
    return "\n".join(shown)


def _line_only(located: tuple[int, Problem]) -> int:
    return located[0]


def _key_path(path: Path) -> str:
    """`regions."eu west".agents[2]: `, the way the key would be written; empty for the root."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += "." * bool(text) + (part if _BARE_KEY.fullmatch(part) else f'"{part}"')
    return text and f"{text}: "
