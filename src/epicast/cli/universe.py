"""`epicast universe`: who subscribes to what, too much of it for one process, on Spark."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epicast.cli.output import print_json, print_line, print_table, say
from epicast.cli.progress import Progress
from epicast.cli.serving import JsonOption
from epicast.cli.workload import MasterOption, OutOption, whole_number

if TYPE_CHECKING:
    from epicast.pipeline.universes.generating import Universe


class ModelChoice(StrEnum):
    grid = "grid"
    websphere = "websphere"


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command("generate")(generate)
    group.command("show")(show)
    app.add_typer(group, name="universe", help="Make universes of users and topics.")


def generate(
    model: Annotated[
        ModelChoice,
        typer.Argument(help="grid: near users share topics. websphere: cells of 127 nodes."),
    ],
    out: OutOption,
    users: Annotated[str, typer.Option(help="Such as 1e6.")] = "1e4",
    topics: Annotated[str, typer.Option(help="Of the grid.")] = "1e3",
    subscriptions: Annotated[float, typer.Option(help="Of a user of the grid, on average.")] = 10.0,
    places: Annotated[int, typer.Option(help="Of the grid's most popular topic.")] = 100,
    skew: Annotated[float, typer.Option(help="Rank r has ~ r ** -skew of these places.")] = 1.0,
    tail: Annotated[
        float, typer.Option(help="A user's radius exceeds x with probability ~ x ** -tail.")
    ] = 3.0,
    seed: Annotated[int, typer.Option(help="Same seed, same universe.")] = 1,
    master: MasterOption = "local[*]",
    as_json: JsonOption = False,
) -> None:
    """Generate a universe: Parquet files with user and topic, and universe.json.

    epicast universe generate grid --users 1e6 --topics 1e4 --subscriptions 100 --out grid

    The subscriptions depend on the options alone, not on the master.
    """
    from epicast.pipeline.universes import generating
    from epicast.pipeline.universes.spec import UniverseSpec
    from epicast.pipeline.workloads.sessions import workload_session

    on_grid = model is ModelChoice.grid
    spec = UniverseSpec(
        model=model.value,
        users=whole_number("users", users),
        topics=whole_number("topics", topics) if on_grid else 0,
        subscriptions=subscriptions,
        places=places,
        skew=skew,
        tail=tail,
        seed=seed,
    )
    generating.check(spec, out.absolute())  # before Spark is started: it takes seconds
    with Progress("generating") as progress, workload_session(master) as spark:
        try:
            made = generating.generate(spark, spec, out, progress.begin, progress.advance)
        except KeyboardInterrupt:
            say("Interrupted; nothing is left.")
            raise typer.Exit(130) from None
    _print(made, out, as_json)


def show(
    directory: Annotated[Path, typer.Argument(help="A universe.")], as_json: JsonOption = False
) -> None:
    """Say what a universe holds."""
    from epicast.pipeline.universes.generating import read_universe

    _print(read_universe(directory), directory, as_json)


def _print(made: Universe, directory: Path, as_json: bool) -> None:
    if as_json:
        import msgspec

        print_json({"directory": str(directory), **msgspec.to_builtins(made)})
        return
    print_table(
        [str(directory), "number", "subscriptions, mean", "median", "p99", "most"],
        [
            [name, f"{d.number:,}", f"{d.mean:,.1f}", f"{d.median:,}", f"{d.p99:,}", f"{d.most:,}"]
            for name, d in (("users", made.users), ("topics", made.topics))
        ],
    )
    print_line(f"{made.edges:,} subscriptions, digest {made.digest}")
