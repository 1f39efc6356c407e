"""`epicast workload`: streams of keyed events too long for one process, on Spark."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epicast.cli.connecting import DEFAULT_ADDRESS
from epicast.cli.output import print_json, print_line, print_table, say
from epicast.cli.progress import Progress
from epicast.cli.serving import JsonOption

if TYPE_CHECKING:
    from epicast.pipeline.workloads.manifest import Workload

MasterOption = Annotated[
    str, typer.Option(help="Spark: local[*], local-cluster[2,1,1024] or spark://HOST:PORT.")
]
OutOption = Annotated[Path, typer.Option(help="A directory that is not there yet.")]


class UnitChoice(StrEnum):
    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


class ModelChoice(StrEnum):
    zipf = "zipf"
    zeta = "zeta"


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command("generate")(generate)
    group.command("import")(import_trace)
    group.command("analyse")(analyse)
    group.command("replay")(replay)
    app.add_typer(group, name="workload", help="Make, import, analyse and replay key workloads.")


def generate(
    model: Annotated[
        ModelChoice, typer.Argument(help="zipf: over --keys keys. zeta: over infinitely many.")
    ],
    out: OutOption,
    events: Annotated[
        str, typer.Option(help="Updates and insertions, such as 1e9; temporary keys add to it.")
    ] = "1e6",
    keys: Annotated[str | None, typer.Option(help="Of the Zipf model.", show_default="1e6")] = None,
    skew: Annotated[float, typer.Option(help="Rank r has probability ~ r ** -skew.")] = 1.1,
    rate: Annotated[float, typer.Option(help="Updates per second.")] = 200.0,
    insertions: Annotated[float, typer.Option(help="New keys per second, at drawn ranks.")] = 0.0,
    temporary: Annotated[
        float, typer.Option(help="Keys per second that are deleted after a while.")
    ] = 0.0,
    lifetime: Annotated[float, typer.Option(help="Of temporary keys, mean seconds.")] = 1.0,
    sizes: Annotated[
        str, typer.Option(help="Payload bytes: N, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA.")
    ] = "100",
    seed: Annotated[int, typer.Option(help="Same seed, same events.")] = 1,
    master: MasterOption = "local[*]",
    as_json: JsonOption = False,
) -> None:
    """Generate a workload: Parquet files with time, key, op and size, and workload.json.

      epicast workload generate zipf --events 1e9 --keys 1e6 --skew 1.1 --out zipf

    The events depend on the options alone, not on the master. An interrupted run goes on where it
    stopped when it is started again.
    """
    from epicast.pipeline.errors import SparkFailed
    from epicast.pipeline.workloads import generating
    from epicast.pipeline.workloads.sessions import workload_session
    from epicast.pipeline.workloads.spec import Sizes, WorkloadSpec

    if keys is None and model is ModelChoice.zipf:
        keys = "1e6"
    spec = WorkloadSpec(
        model=model.value,
        events=whole_number("events", events),
        keys=None if keys is None else whole_number("keys", keys),
        skew=skew,
        rate=rate,
        insertions=insertions,
        temporary=temporary,
        lifetime=lifetime,
        sizes=Sizes.parse(sizes),
        seed=seed,
    ).check()
    generating.prepare(spec, out.absolute())  # before Spark is started: it takes seconds
    with Progress("generating") as progress, workload_session(master) as spark:
        try:
            made = generating.generate(spark, spec, out, progress.begin, progress.advance)
        except KeyboardInterrupt:
            say(f"Interrupted; {out} keeps what is done: start again to go on.")
            raise typer.Exit(130) from None
        except SparkFailed as error:
            raise SparkFailed(f"{error}; {out} keeps what is done: start again to go on") from error
    _print_made(made, out, as_json)


def import_trace(
    file: Annotated[
        Path, typer.Argument(help="A .csv with a line of names, a .parquet, or a folder of those.")
    ],
    out: OutOption,
    time_column: Annotated[str, typer.Option(help="Numbers, or timestamps in Parquet.")] = "time",
    key_column: Annotated[
        str, typer.Option(help="Whole numbers are kept; anything else becomes a 63-bit hash.")
    ] = "key",
    op_column: Annotated[
        str | None, typer.Option(help="update, insert or delete.", show_default="all updates")
    ] = None,
    size_column: Annotated[
        str | None, typer.Option(help="Payload bytes.", show_default="none")
    ] = None,
    time_unit: Annotated[UnitChoice, typer.Option(help="Of the times.")] = UnitChoice.s,
    master: MasterOption = "local[*]",
    as_json: JsonOption = False,
) -> None:
    """Import a trace: rows are checked, sorted by time, and kept as a workload.

    Nothing is left behind if the trace is wrong; the first wrong row is named.
    """
    from epicast.pipeline.workloads import importing
    from epicast.pipeline.workloads.sessions import workload_session
    from epicast.pipeline.workloads.traces import TraceColumns, check_trace

    columns = TraceColumns(
        time=time_column,
        key=key_column,
        op=op_column,
        size=size_column,
        time_unit=time_unit.value,
    )
    importing.check_target(out)
    check_trace(file, columns)  # before Spark is started
    with Progress("importing") as progress, workload_session(master) as spark:
        progress.begin(1)
        made = importing.import_trace(spark, file, out, columns)
        progress.advance()
    _print_made(made, out, as_json)


def analyse(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Workloads; claims compare several.")
    ],
    report: Annotated[
        Path | None, typer.Option(help="The page.", show_default="report.html in the first DIR")
    ] = None,
    master: MasterOption = "local[*]",
    as_json: JsonOption = False,
) -> None:
    """Show what garbage collection saves, from a thousand events to all, and judge claims S5 to S7.

    A claim that does not hold is a result, not a failure: the exit status is 0.
    """
    from epicast.pipeline.workloads import analysis
    from epicast.pipeline.workloads.sessions import workload_session

    for directory in directories:
        analysis.whole_workload(directory)  # before Spark is started
    target = report or directories[0] / analysis.REPORT
    with Progress("analysing") as progress, workload_session(master) as spark:
        progress.begin(len(directories))
        found, verdicts = analysis.analyse(spark, directories, progress.advance)
    analysis.write_report(target, found, verdicts)
    if as_json:
        print_json(analysis.to_json(found, verdicts) | {"report": str(target)})
        return
    for one in found:
        print_line(f"{one.directory}: {one.workload.title}")
        print_table(
            ["generated", "stored", "saved"],
            ([f"{p.generated:,}", f"{p.stored:,}", f"{p.saving:.2%}"] for p in one.curve),
        )
    if verdicts.claims:
        print_table(
            ["claim", "paper", "ours", "holds", "detail"],
            (
                [claim.id, claim.paper, claim.ours, "yes" if claim.holds else "NO", claim.detail]
                for claim in verdicts.claims
            ),
        )
    for text in verdicts.missing:
        say(f"Not judged: {text}.")
    print_line(f"Report: {target}")


def replay(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A workload.")],
    stream: Annotated[str, typer.Option(help="Where to publish it.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            "--proxy",
            metavar="ADDRESS",
            help="A proxy or agent.",
            envvar="EPICAST_ADDRESS",
        ),
    ] = DEFAULT_ADDRESS,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Events per second.", show_default="as fast as possible"),
    ] = None,
    speed: Annotated[
        float | None, typer.Option(min=1e-9, help="By their own times, so many times as fast.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many events.", show_default="all")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Where the position is kept.", show_default="replay-STREAM.json in DIR"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a workload into a live stream, in order, each event once.

    A deletion becomes a GC event. An interrupted replay goes on where it stopped when it is started
    again; what is published twice then is recognised. The exit status is 1 if events were refused.
    """
    if rate is not None and speed is not None:
        raise typer.BadParameter("--rate and --speed do not go together; give one of them")
    from epicast.client import PublishRefused
    from epicast.pipeline.workloads.replaying import Pace, Replay

    address = to if "://" in to else f"epicast://{to}"
    work = Replay(directory, stream, address, Pace(rate, speed), state)
    end = min(limit or work.workload.rows, work.workload.rows)
    status = 0
    with Progress("replaying, parts of a hundred") as progress:
        progress.begin(100)

        def told(rows: int) -> None:
            while progress.done < 100 * work.outcome.position // end:
                progress.advance()

        try:
            work.run(limit, told)
        except KeyboardInterrupt:
            say("Interrupted; start again to go on.")
            status = 130
        except PublishRefused as error:
            say(f"epicast: {error}")
            status = 1
    done = work.outcome
    achieved = done.rows / done.seconds if done.seconds else 0.0
    if as_json:
        print_json(
            {
                "stream": stream,
                "events": done.rows,
                "position": done.position,
                "last": done.last,
                "seconds": round(done.seconds, 6),
                "events_per_s": round(achieved, 3),
                "lag_s": round(done.lag, 6),
                "most_lag_s": round(done.most_lag, 6),
            }
        )
    else:
        print_line(
            f"{done.rows:,} events in {done.seconds:.1f} s, {achieved:,.0f} per second, "
            f"{done.position:,} of {work.workload.rows:,} in all"
            + (f", {done.lag:.2f} s behind schedule" if rate or speed else "")
        )
    raise typer.Exit(status)


def _print_made(made: Workload, out: Path, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "directory": str(out),
                "rows": made.rows,
                "updates": made.updates,
                "inserts": made.inserts,
                "deletes": made.deletes,
                "seconds": made.seconds,
                "file_bytes": made.file_bytes,
                "digest": made.digest,
            }
        )
    else:
        print_line(
            f"{out}: {made.rows:,} events over {made.seconds:,.0f} s, "
            f"{made.file_bytes / made.rows:.2f} bytes each, digest {made.digest}"
        )


def whole_number(name: str, text: str) -> int:
    """1000000 or 1e6."""
    try:
        number = float(text)
        if number == int(number):
            return int(text) if text.isdigit() else int(number)
    except (ValueError, OverflowError):
        pass
    raise typer.BadParameter(f"{text!r} is not a whole number such as 1e6", param_hint=f"--{name}")
