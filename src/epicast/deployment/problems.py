"""What is wrong with a document, and where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from epicast.core.errors import ConfigError
from epicast.deployment.positions import Path


class Problem(NamedTuple):
    """`path` says where, `message` what was found and what was expected."""

    path: Path
    message: str


class ProblemsFound(ConfigError):
    """Raised by a struct's `__post_init__` that knows which of its keys are wrong.

    A plain `ConfigError` is reported at the table as a whole; these, with paths relative to it, at
    the line of each key.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(message for _, message in self.problems))


def raise_if_any(problems: Iterable[Problem]) -> None:
    found = list(problems)
    if found:
        raise ProblemsFound(found)
