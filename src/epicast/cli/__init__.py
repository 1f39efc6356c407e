"""The `epicast` command: one module per command, each with `register(app)`.

To add a command, write the module and name it in `COMMANDS`. Modules import what is heavy (numpy,
pyarrow, matplotlib, the rest of Epicast) inside their functions, so that `epicast --help` is quick.

Exit status: 0 done; 1 done, but what was asked for failed (a run, a guarantee, a strict check);
2 wrong call or wrong input, nothing was started; 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from epicast.cli import (
    agent,
    audit,
    backup,
    certificate,
    demo,
    doctor,
    experiment,
    lake,
    nemesis,
    plan,
    proxy,
    publish,
    restore,
    simulate,
    status,
    stream,
    streams,
    subscribe,
    swarm,
    topic,
    universe,
    up,
    workload,
)
from epicast.cli.output import say

if TYPE_CHECKING:
    from epicast.experiments.registry import Registry

COMMANDS = (
    up, publish, subscribe, topic, status, streams, stream, proxy, agent, backup, restore, demo,
    simulate, swarm, nemesis, experiment, plan, doctor, lake, workload, universe, audit,
    certificate,
)  # fmt: skip


def main(argv: Sequence[str] | None = None, *, experiments: Registry | None = None) -> int:
    """Run the command line and return its exit status. `experiments` replaces the usual ones."""
    try:
        build_app()(args=argv, prog_name="epicast", obj=experiments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception as error:
        from epicast.core.errors import EpicastError

        if not isinstance(error, EpicastError):
            raise
        say(f"epicast: {error}")
        return 2
    return 0


def build_app() -> typer.Typer:
    app = typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=_HELP
    )
    app.callback()(_options)
    for command in COMMANDS:
        command.register(app)
    return app


_HELP = "Reliable broadcast and publish-subscribe that can prove what it delivered."


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"epicast {version('epicast')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options of `epicast` itself; `--version` has done its work by the time this is called."""
