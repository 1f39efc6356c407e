"""The file and the commands in docs/security.md are real."""

import re
from pathlib import Path

from typer.testing import CliRunner

from epicast.cli import build_app
from epicast.deployment import Action, parse_geoplex
from epicast.deployment.tokens import hash_token

TEXT = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")


def test_the_file() -> None:
    [block] = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    text = block.replace("sha256:…:…", hash_token("ept:web:x", bytes(16)))
    access = parse_geoplex(text, "docs/security.md").access()
    assert access is not None
    assert not access.permit("web", Action.PUBLISH, "orders")
    assert access.permit("report", Action.PUBLISH, "orders")
    assert not access.permit("report", Action.SUBSCRIBE, "prices")


def test_every_command_is_there() -> None:
    commands = set(re.findall(r"epicast certificate ([a-z]+)", TEXT))
    assert commands >= {"local", "token", "client", "show", "region"}
    for command in commands:
        result = CliRunner().invoke(build_app(), ["certificate", command, "--help"])
        assert result.exit_code == 0, command


def test_limits_are_called_as_in_the_file() -> None:
    from msgspec import inspect

    from epicast.deployment import NodeBudget

    info = inspect.type_info(NodeBudget)
    assert isinstance(info, inspect.StructType)
    known = {field.encode_name for field in info.fields}
    table = TEXT.split("## Limits")[1].split("## ")[0]
    named = set(re.findall(r"`((?:max|connect)_\w+)`", table))
    assert len(named) >= 7 and named <= known
