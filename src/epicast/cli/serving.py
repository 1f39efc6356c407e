"""What commands that run until they are told to stop have in common."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.output import say

if TYPE_CHECKING:
    from epicast.deployment import Geoplex
    from epicast.geo.agent import AgentService
    from epicast.geo.proxy import ProxyService


class LogFormatChoice(StrEnum):
    text = "text"
    json = "json"


class LogLevel(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


FileArgument = Annotated[
    Path, typer.Argument(help="The deployment, such as examples/geoplex.toml.", metavar="FILE")
]
LogFormatOption = Annotated[
    LogFormatChoice,
    typer.Option("--log-format", help="Log lines for people, or JSON objects for machines."),
]
LogLevelOption = Annotated[
    LogLevel, typer.Option("--log-level", help="What is worth a line on stderr.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def load_file(path: Path) -> Geoplex:
    from epicast.deployment import load_geoplex

    return load_geoplex(path)


def run_service(
    service: ProxyService | AgentService, what: str, geoplex: Geoplex, region: str, as_json: bool
) -> None:
    """Until Ctrl-C or SIGTERM, which is how a service ends: exit status 0."""
    from epicast.runtime import run
    from epicast.runtime.services import serve

    def announce() -> None:
        scheme = "epicast" if geoplex.security is None else "epicasts"
        address = f"{scheme}://{service.address}"
        if as_json:
            announce_json({"geoplex": geoplex.name, "region": region, "address": address})
        else:
            say(f"The {what} {region!r} of {geoplex.name!r} serves {address}")

    run(serve(service, ready=announce))
    say("Stopped.")


def announce_json(value: Any) -> None:
    """One line, at once: whoever started this waits for it."""
    print(json.dumps(value), flush=True)
