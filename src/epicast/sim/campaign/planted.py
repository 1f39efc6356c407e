"""Planting a bug: in a copy of the sources, never in the sources themselves.

The copy is run by a process of its own, as anybody would run it: `epicast swarm`. What it prints
says whether a seed failed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct

from epicast.core import ConfigError

_PACKAGE = Path(__file__).parents[2]
_PATIENCE_S = 3600


class PlantedBug(Struct, frozen=True, kw_only=True):
    name: str
    file: str
    """Inside the package."""
    old: str
    """One line of it, whole, without what it is indented by; it must be there exactly once."""
    new: str
    """What stands there instead, equally indented."""
    description: str
    within: int
    """Seeds, counted from `first`, in which it must be caught."""
    first: int = 0

    def plant(self, package: Path) -> None:
        """Change one line of a copy of the package."""
        path = package / self.file
        if path.resolve().is_relative_to(_PACKAGE.resolve()):
            raise ConfigError(f"{path} is the source itself; plant bugs in a copy")
        path.write_text(self.applied_to(path.read_text("utf-8")), "utf-8")

    def applied_to(self, source: str) -> str:
        lines = source.splitlines(keepends=True)
        found = [at for at, line in enumerate(lines) if line.strip() == self.old]
        if len(found) != 1:
            raise ConfigError(
                f"planted bug {self.name!r}: {self.file} has the line {self.old!r} {len(found)} "
                "times, it must be there once; bring the bug in line with the source"
            )
        line = lines[found[0]]
        indent = line[: len(line) - len(line.lstrip())]
        lines[found[0]] = f"{indent}{self.new}\n"
        return "".join(lines)


class Caught(Struct, frozen=True):
    bug: PlantedBug
    seeds: int
    """So many were run, the last of which failed if it was caught."""
    failure: str
    """What the oracle said; empty if none did."""

    @property
    def was_caught(self) -> bool:
        return bool(self.failure)

    def told(self) -> str:
        if not self.was_caught:
            return f"{self.bug.name}: NOT caught in {self.seeds} seeds: {self.bug.description}"
        return (
            f"{self.bug.name}: caught in {self.seeds} of {self.bug.within} seeds: "
            f"{self.failure.splitlines()[0]}"
        )

    def as_row(self) -> dict[str, Any]:
        return {
            "name": self.bug.name,
            "file": self.bug.file,
            "description": self.bug.description,
            "within": self.bug.within,
            "caught": self.was_caught,
            "seeds": self.seeds,
            "failure": self.failure,
        }


def catch(bug: PlantedBug) -> Caught:
    """Plant a bug and run seeds until one fails, or all that it has."""
    with tempfile.TemporaryDirectory(prefix="epicast-planted-") as folder:
        copy = Path(folder) / _PACKAGE.name
        # Compiled kernels come along, which would take longer to compile than most seeds to run.
        shutil.copytree(_PACKAGE, copy)
        bug.plant(copy)
        return _run(bug, Path(folder))


def _run(bug: PlantedBug, folder: Path) -> Caught:
    environment = dict(os.environ)
    others = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *([others] if others else [])])
    command = [
        sys.executable, "-m", "epicast", "swarm", "--first", str(bug.first),
        "--seeds", str(bug.within), "--stop", "--jobs", "1", "--json",
    ]  # fmt: skip
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
    if done.returncode not in (0, 1) or not done.stdout:
        raise ConfigError(f"planted bug {bug.name!r}: the campaign itself failed: {done.stderr}")
    result = json.loads(done.stdout)
    failed = result["failed"]
    return Caught(bug, result["seeds"], failed[0]["failure"] if failed else "")
