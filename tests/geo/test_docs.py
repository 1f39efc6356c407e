"""The commands and the Python in docs/operations.md exist as they are written there."""

import re
from pathlib import Path

import pytest
import typer

from epicast.cli import build_app

TEXT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
CODE = re.findall(r"```(\w*)\n(.*?)```", TEXT, re.DOTALL)


def commands() -> list[str]:
    lines = [line for language, code in CODE if not language for line in code.splitlines()]
    found = [
        line[line.index("epicast ") :].partition("  #")[0] for line in lines if "epicast " in line
    ]
    return [line.rstrip() for line in found if not line.startswith("epicast proxy /")]


def test_there_are_commands_to_check() -> None:
    assert len(commands()) > 15


@pytest.mark.parametrize("line", commands())
def test_options_exist(line: str) -> None:
    command = typer.main.get_command(build_app())
    for name in line.split()[1:]:
        if name not in getattr(command, "commands", {}):
            break
        command = command.commands[name]  # type: ignore[attr-defined]
    known = {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert set(re.findall(r"--[a-z-]+", line)) <= known


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = [code for language, code in CODE if language == "python"]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "operations.md", "exec"), {})
    assert (tmp_path / "data" / "us" / "streams" / "prices").is_dir()
