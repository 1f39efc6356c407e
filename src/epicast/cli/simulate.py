"""`epicast simulate`: run a scenario file, or a whole geoplex, in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epicast.cli.output import print_json, print_table, say
from epicast.cli.progress import Progress

if TYPE_CHECKING:
    from epicast.core import Trace
    from epicast.sim.geoplex_run import GeoplexOutcome, GeoplexRun
    from epicast.sim.runner import Outcome, ScenarioRun


def register(app: typer.Typer) -> None:
    app.command("simulate")(simulate)


def simulate(
    scenario: Annotated[
        Path,
        typer.Argument(help="A scenario such as scenarios/calm.toml, or a geoplex.toml."),
    ],
    seed: Annotated[
        int | None, typer.Option(help="Same seed, same run.", show_default="the file's")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write what happened to this Arrow file.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Publish at most this many events at a time.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Run a scenario and say whether what it expects came true (exit status 1 if not)."""
    from epicast.core import Trace
    from epicast.sim.runner import ScenarioFailed

    record = Trace(keep=trace is not None)
    run = _prepare(scenario, seed, record, batch)
    say(f"{_title(run)}, seed {run.seed}")
    try:
        with Progress("simulating") as progress:
            progress.begin(100)
            outcome = run.run(lambda _share, _word: progress.advance())
    except ScenarioFailed as failure:
        say(f"epicast: {failure}")
        raise typer.Exit(1) from None
    if trace is not None:
        _write_trace(record, trace)
    if as_json:
        _print_json(outcome)
    else:
        print_table(["", outcome.scenario], _rows(outcome))
    for problem in outcome.failures:
        say(f"epicast: {problem}")
    if not outcome.passed:
        say(f"repeat with: {run.replay_line()}")
        raise typer.Exit(1)


def _prepare(
    file: Path, seed: int | None, record: Trace, batch: int | None
) -> ScenarioRun | GeoplexRun:
    """A file with regions describes a geoplex, any other a scenario."""
    from epicast.deployment import load_geoplex
    from epicast.sim.geoplex_run import GeoplexRun
    from epicast.sim.runner import ScenarioRun
    from epicast.sim.scenario import load_scenario

    if _has_regions(file):
        return GeoplexRun(load_geoplex(file), seed, record, batch)
    return ScenarioRun(load_scenario(file), seed, record, batch)


def _has_regions(file: Path) -> bool:
    import tomllib

    try:
        return "regions" in tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False  # whoever loads it says what is wrong


def _title(run: ScenarioRun | GeoplexRun) -> str:
    from epicast.sim.runner import ScenarioRun, describe

    if isinstance(run, ScenarioRun):
        return f"{run.scenario.name}: {describe(run.scenario)}"
    return f"{run.geoplex.name}: {run.describe()}"


def _write_trace(record: Trace, path: Path) -> None:
    from epicast.core import ConfigError
    from epicast.experiments.extras import require

    require("pyarrow")
    import pyarrow as arrow

    try:
        with arrow.OSFile(str(path), "wb") as sink:
            table = record.to_arrow()
            with arrow.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
    except OSError as error:
        raise ConfigError(f"cannot write the trace: {error}") from None
    say(f"wrote {record.rows_seen} rows to {path}")


def _print_json(outcome: Outcome | GeoplexOutcome) -> None:
    import msgspec

    print_json({**msgspec.to_builtins(outcome), "passed": outcome.passed})


def _rows(outcome: Outcome | GeoplexOutcome) -> list[list[str]]:
    from epicast.sim.runner import Outcome

    delays = ", ".join(f"{name} {value:g} ms" for name, value in outcome.delay_ms.items())
    drops = ", ".join(f"{reason} {count}" for reason, count in outcome.drops.items()) or "none"
    if isinstance(outcome, Outcome):
        graph = "one piece" if outcome.connected else "split"
        special = [["overlay", f"{graph}, mean degree {outcome.mean_degree:.2f}"]]
    else:
        special = _geoplex_rows(outcome)
    return [
        ["simulated", f"{outcome.simulated_s:g} s"],
        ["nodes up at the end", str(outcome.nodes_alive)],
        ["events published", str(outcome.published_events)],
        ["events delivered", str(outcome.delivered_events)],
        ["delivery", f"{outcome.delivery:.4%}"],
        ["delay", delays],
        ["messages", f"{outcome.messages} ({outcome.bytes} bytes)"],
        ["given up", drops],
        *special,
        ["digest", outcome.digest],
    ]


def _geoplex_rows(outcome: GeoplexOutcome) -> list[list[str]]:
    heads = [
        [f"heads in {region}", ", ".join(f"{stream} {seq}" for stream, seq in streams.items())]
        for region, streams in outcome.heads.items()
    ]
    return [
        ["acknowledged, refused", f"{outcome.acknowledged_events}, {outcome.refused_events}"],
        ["delivered as tombstones", str(outcome.tombstoned_events)],
        ["lost", str(outcome.lost)],
        ["out of order", str(outcome.out_of_order)],
        ["subscriptions started over", str(outcome.restarts)],
        *heads,
    ]
