"""Scenario files that exist in memory only."""

from pathlib import Path

from epicast.core import ConfigError
from epicast.sim.scenario import LoadedScenario, load_scenario

BASE = """\
name = "small"
nodes = 5
duration = "10s"
stack = ["hyparview", "flood"]
"""
"""Four lines, nothing but what is required."""


def load(text: str, **files: str) -> LoadedScenario:
    """`text` as x/small.toml, with others beside it."""
    documents = {"x/small.toml": text} | {f"x/{name}": other for name, other in files.items()}

    def read(path: Path) -> str:
        if str(path) not in documents:
            raise ConfigError(f"{path}: cannot be read: No such file or directory")
        return documents[str(path)]

    return load_scenario(Path("x/small.toml"), read)
