"""`epicast doctor`: whether what commands need is there, and how fast it is."""

from __future__ import annotations

from typing import Annotated

import typer

from epicast.cli.output import print_json, print_table, say
from epicast.cli.serving import JsonOption


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command("spark")(spark)
    app.add_typer(group, name="doctor", help="Look at what commands need.")


def spark(
    build_cache: Annotated[
        bool,
        typer.Option(
            "--build-cache", help="First make the start-up cache, which takes half a minute."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say which Java and which Spark would be used, and how long a start takes."""
    from epicast.pipeline.doctor import examine
    from epicast.pipeline.startup_cache import build_cache as build

    if build_cache:
        say("Building the start-up cache, about half a minute ...")
        build()
    found = examine()
    if as_json:
        print_json(found)
        return
    print_table(["", ""], [[name.replace("_", " "), str(value)] for name, value in found.items()])
    if not found["startup_cache"]:
        say("Spark starts twice as fast after: epicast doctor spark --build-cache")
