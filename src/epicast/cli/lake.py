"""`epicast lake`: streams as tables."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli import lake_tables
from epicast.cli.connecting import DEFAULT_ADDRESS
from epicast.cli.output import print_json, print_table, say
from epicast.cli.serving import JsonOption, announce_json

if TYPE_CHECKING:
    from epicast.pipeline.lake.driver_reports import Report
    from epicast.pipeline.lake.supervisor import Restarting

_SECONDS_BETWEEN_LINES = 10.0


class TableChoice(StrEnum):
    delta = "delta"
    parquet = "parquet"


ProxyOption = Annotated[
    str,
    typer.Option(
        "--proxy", metavar="HOST:PORT[,HOST:PORT]", help="The first that answers is used.",
        envvar="EPICAST_ADDRESS",
    ),
]  # fmt: skip


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command("run")(run)
    group.command("status")(status)
    lake_tables.add_commands(group)
    app.add_typer(group, name="lake", help="Streams as tables, in Delta or Parquet.")


def run(
    lake: Annotated[Path, typer.Option("--lake", help="The folder; created if need be.")],
    proxy: ProxyOption = DEFAULT_ADDRESS,
    streams: Annotated[
        str | None,
        typer.Option(metavar="NAME[,NAME]", help="Which streams.", show_default="all there are"),
    ] = None,
    table: Annotated[
        TableChoice | None,
        typer.Option(help="How tables are kept, when a lake is made.", show_default="delta"),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End with what there is now.")] = False,
    interval: Annotated[float, typer.Option(min=0.0, help="Seconds between two batches.")] = 2.0,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]",
    max_events: Annotated[
        int, typer.Option(min=1, help="In one batch, at most about so many.")
    ] = 8_000_000,
    min_free_mb: Annotated[
        int, typer.Option(min=0, help="No batch begins with less room on the disk.")
    ] = 512,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Write every event of streams into the table `bronze` of a lake, exactly once, until Ctrl-C.

      epicast lake run --lake lake --streams prices,audit

    A proxy that is away, a Spark that crashes, a disk that is full: it is tried again, and goes
    on where it was. What Spark has to say is in the lake's `driver.log`.
    """
    from epicast.pipeline.lake.ingestion_options import IngestionOptions
    from epicast.pipeline.lake.opening import lake_for
    from epicast.pipeline.lake.supervisor import Supervisor
    from epicast.pipeline.masters import check_master

    check_master(master)
    names = None if streams is None else [name.strip() for name in streams.split(",")]
    found = lake_for(str(lake), proxy, names, None if table is None else table.value)
    options = IngestionOptions(
        lake=str(found.folder),
        proxy=proxy,
        once=once,
        interval_s=interval,
        master=master,
        max_events=max_events,
        min_free_mb=min_free_mb,
    )
    teller = _Teller(as_json)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        Supervisor(options, teller.tell).run()
    except KeyboardInterrupt:
        teller.sum_up()
        raise typer.Exit(130) from None
    teller.sum_up()


class _Teller:
    """A line now and then, not one per batch; with JSON, everything."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._rows = self._rows_told = 0
        self._told_at = time.monotonic()
        self._last_error = ""

    def tell(self, report: Report | Restarting) -> None:
        from epicast.pipeline.lake.driver_reports import Batch, Running
        from epicast.pipeline.lake.supervisor import Restarting

        if self._as_json:
            _announce(report)
        if isinstance(report, Batch):
            self._rows += report.committed.rows
            self._last_error = ""
            if time.monotonic() - self._told_at >= _SECONDS_BETWEEN_LINES:
                self._progress()
        elif isinstance(report, Running):
            self._say("Spark is running.")
        elif isinstance(report, Restarting) and report.error != self._last_error:
            self._last_error = report.error
            self._say(f"{report.error}; trying again (restart {report.restarts})")

    def sum_up(self) -> None:
        self._say(f"{self._rows:,} rows written.")

    def _progress(self) -> None:
        now = time.monotonic()
        rate = (self._rows - self._rows_told) / (now - self._told_at)
        self._say(f"{self._rows:,} rows, {rate:,.0f} per second")
        self._rows_told, self._told_at = self._rows, now

    def _say(self, text: str) -> None:
        if not self._as_json:
            say(text)


def _announce(report: Report | Restarting) -> None:
    import msgspec

    from epicast.pipeline.lake.supervisor import Restarting

    plain = msgspec.to_builtins(report)
    announce_json({"type": "restarting", **plain} if isinstance(report, Restarting) else plain)


def status(
    lake: Annotated[Path, typer.Argument(help="The folder of the lake.", metavar="DIR")],
    proxy: ProxyOption = DEFAULT_ADDRESS,
    as_json: JsonOption = False,
) -> None:
    """Show what is in a lake, and how far it is behind the streams if the proxy answers."""
    from epicast.pipeline.lake.layout import Lake
    from epicast.pipeline.lake.status import status_of

    found = status_of(Lake.open(lake), proxy)
    if as_json:
        print_json(found)
        return
    _print(found)
    if found["proxy_problem"]:
        say(f"epicast: how far behind is not known: {found['proxy_problem']}")


def _print(found: dict[str, Any]) -> None:
    print_table(
        ["stream", "epoch", "up to", "behind"],
        [
            [
                name,
                str(stream["watermark"][0]),
                str(stream["watermark"][1]),
                "?" if stream["behind"] is None else str(stream["behind"]),
            ]
            for name, stream in found["streams"].items()
        ],
    )
    bronze, run_state = found["bronze"], found["run"]
    commit = bronze["last_commit"]
    rows = [
        ["geoplex", found["geoplex"]],
        ["table", found["table"]],
        ["rows", f"{bronze['rows']:,}"],
        ["files", str(bronze["files"])],
        ["bytes", f"{bronze['bytes']:,}"],
        ["version", str(bronze["version"])],
        ["last commit", "none" if commit is None else _clock(commit)],
    ]
    if run_state:
        rows.append(["ingestion", "running" if run_state["alive"] else "not running"])
        rows.append(["restarts", str(run_state["restarts"])])
        if run_state["last_error"]:
            rows.append(["last error", f"{run_state['last_error_at']} {run_state['last_error']}"])
    print_table(["", ""], rows)


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds")
