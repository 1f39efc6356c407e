"""`epicast experiment`: the papers' figures and tables, run here and compared with the paper."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.output import print_json, print_line, print_table, say
from epicast.experiments.model import Claim, Experiment, Scale

if TYPE_CHECKING:
    from epicast.experiments.executor import Executor
    from epicast.experiments.registry import Registry
    from epicast.experiments.sweep import Failure, Sweep

_FAILURES_SHOWN = 10

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command("list")(list_experiments)
    group.command("run")(run)
    group.command("claims")(claims)
    app.add_typer(group, name="experiment", help="Reproduce the papers' figures and tables.")


def list_experiments(context: typer.Context, as_json: Json = False) -> None:
    """Show the experiments, the claims they cover and the number of runs at each scale."""
    rows = [
        {
            "name": experiment.name,
            "title": experiment.title,
            "claims": list(experiment.claim_ids),
            "runs": {scale.value: len(experiment.points(scale)) for scale in Scale},
        }
        for experiment in _registry(context).all()
    ]
    if as_json:
        print_json(rows)
        return

    def cells(row: dict[str, Any]) -> list[str]:
        runs = " / ".join(str(number) for number in row["runs"].values())
        return [row["name"], " ".join(row["claims"]), row["title"], runs]

    print_table(["name", "claims", "title", f"runs ({' / '.join(Scale)})"], map(cells, rows))
    say("Run one with: epicast experiment run NAME")


def run(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="As shown by: experiment list.")] = None,
    claim: Annotated[
        str | None, typer.Option("--claim", help="Run the experiment that covers this claim.")
    ] = None,
    scale: Annotated[
        Scale,
        typer.Option(help="smoke: seconds. paper: the paper's size. beyond: larger than that."),
    ] = Scale.SMOKE,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for the results.", show_default="out/NAME-SCALE"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same results.")] = 1,
    master: Annotated[
        str | None,
        typer.Option(
            help="Spark runs it on: local[N], local-cluster[2,1,1024] or spark://HOST:PORT.",
            show_default="local[*], all cores of this machine",
        ),
    ] = None,
    inline: Annotated[
        bool,
        typer.Option("--inline", help="Without Spark, in this process, one run after the other."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run an experiment and judge its claims.

    An interrupted run goes on where it stopped when it is started again with the same directory.
    The exit status is 1 if a run failed; a claim that does not hold is a result, not a failure.
    """
    if (name is None) == (claim is None):
        raise typer.BadParameter("give either NAME or --claim ID", param_hint="NAME")
    if inline and master is not None:
        raise typer.BadParameter("there is no master of what runs inline", param_hint="--master")
    if inline:
        _keep_to_one_thread()
    registry = _registry(context)
    experiment = registry.get(name) if name else registry.covering(claim or "")
    directory = out or Path("out") / f"{experiment.name}-{scale}"
    sweep, found = _sweep(experiment, scale, seed, directory, master, inline)
    if as_json:
        print_json(_summary(sweep, found, directory))
    else:
        _print_claims([(directory, one) for one in found])
        print_line(f"Report: {directory / 'report.html'}")
    _report_failures(sweep.failures, directory)
    raise typer.Exit(1 if sweep.failures else 0)


def claims(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Of finished runs.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 if a claim does not hold.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the claims that runs have judged: the paper's value beside ours."""
    from epicast.experiments.outputs import read_claims

    found = read_claims(directories)
    if as_json:
        print_json([_claim(claim) | {"directory": str(where)} for where, claim in found])
    else:
        _print_claims(found)
    if strict and not all(claim.holds for _, claim in found):
        raise typer.Exit(1)


def _registry(context: typer.Context) -> Registry:
    from epicast.experiments.registry import default_registry

    return context.obj or default_registry()


def _sweep(
    experiment: Experiment,
    scale: Scale,
    seed: int,
    directory: Path,
    master: str | None,
    inline: bool,
) -> tuple[Sweep, list[Claim]]:
    from epicast.cli.sweeping import SweepProgress
    from epicast.experiments.executor import InlineExecutor
    from epicast.experiments.extras import require_extras
    from epicast.experiments.outputs import command_line, write_outputs
    from epicast.experiments.sweep import run_sweep
    from epicast.pipeline.errors import SweepFailed

    executor = InlineExecutor() if inline else _on_spark(master)
    require_extras()
    again = command_line(experiment.name, scale, seed, directory, master, inline)
    with SweepProgress(experiment.name, directory) as watcher:
        try:
            sweep = run_sweep(experiment, scale, seed, directory, executor, watcher)
        except KeyboardInterrupt:
            watcher.interrupted("Interrupted", again)
            raise typer.Exit(130) from None
        except SweepFailed as error:
            watcher.interrupted(f"epicast: {error}", again)
            raise typer.Exit(1) from None
    return sweep, write_outputs(sweep, directory)


def _on_spark(master: str | None) -> Executor:
    """Whether it can work is found out here, before anything is written."""
    from epicast.pipeline.errors import SparkMissing
    from epicast.pipeline.masters import check_master
    from epicast.pipeline.session import DEFAULT_MASTER, check_spark
    from epicast.pipeline.sweeping import SparkExecutor

    try:
        check_spark()
    except SparkMissing as error:
        raise SparkMissing(f"{error}; or run it without Spark: --inline") from None
    check_master(master or DEFAULT_MASTER)
    return SparkExecutor(master or DEFAULT_MASTER)


def _keep_to_one_thread() -> None:
    from epicast.pipeline.threads import one_thread

    os.environ.update(one_thread(os.environ))


def _print_claims(found: Sequence[tuple[Path, Claim]]) -> None:
    if not found:
        print_line("No claim of a paper was judged; what was found is in the report.")
        return
    print_table(
        ["claim", "paper", "ours", "holds", "detail"],
        (
            [claim.id, claim.paper, claim.ours, "yes" if claim.holds else "NO", claim.detail]
            for _, claim in found
        ),
    )
    held = sum(claim.holds for _, claim in found)
    print_line(f"{held} of {len(found)} claims hold")


def _claim(claim: Claim) -> dict[str, Any]:
    return {name: getattr(claim, name) for name in claim.__struct_fields__}


def _summary(sweep: Sweep, found: Sequence[Claim], directory: Path) -> dict[str, Any]:
    return {
        "experiment": sweep.experiment.name,
        "scale": sweep.scale.value,
        "seed": sweep.seed,
        "directory": str(directory),
        "runs": {
            "total": len(sweep.tasks),
            "reused": sweep.reused,
            "failed": len(sweep.failures),
        },
        "claims": [_claim(claim) for claim in found],
        "failures": [
            {
                "parameters": dict(failure.task.parameters),
                "seed": failure.task.seed,
                "error": failure.error,
            }
            for failure in sweep.failures
        ],
    }


def _report_failures(failures: Sequence[Failure], directory: Path) -> None:
    """The first in full, more as one line each: they are usually the same."""
    from epicast.experiments.tasks import describe

    if not failures:
        return
    say(f"{len(failures)} runs failed. The first, {describe(failures[0].task.parameters)}:")
    say(failures[0].error.rstrip())
    for failure in failures[1:_FAILURES_SHOWN]:
        say(f"{describe(failure.task.parameters)}: {failure.error.rstrip().splitlines()[-1]}")
    say(f"All of them are in {directory / 'report.html'}; run again to retry the failed ones.")
