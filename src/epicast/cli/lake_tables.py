"""`epicast lake query | refresh | compact`: the tables above bronze."""

from __future__ import annotations

from base64 import b64encode
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.connecting import reminder
from epicast.cli.output import print_json, print_table, say, write_lines
from epicast.cli.progress import Progress
from epicast.cli.serving import JsonOption

if TYPE_CHECKING:
    import pyarrow as pa

LakeArgument = Annotated[Path, typer.Argument(help="The folder of the lake.", metavar="LAKE")]
MasterOption = Annotated[str, typer.Option(help="Where Spark runs.")]
_STARTING = "Starting Spark ..."


def add_commands(group: typer.Typer) -> None:
    group.command("query")(query)
    group.command("refresh")(refresh)
    group.command("compact")(compact)


def query(
    lake: LakeArgument,
    sql: Annotated[
        str,
        typer.Argument(help="Over the views bronze, silver, gold and savings.", metavar="[SQL]"),
    ] = "SELECT * FROM silver ORDER BY stream, seq",
    stream: Annotated[
        list[str] | None, typer.Option(help="With --as-of and the like: of this stream.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="EPOCH:SEQ", help="As it was behind this number.")
    ] = None,
    as_of_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="As it was then, by the owner's clock.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=0, help="As it was in this version of bronze.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows to show; 0 for all.")] = 100,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Do not bring silver and gold up to date first.")
    ] = False,
    master: MasterOption = "local[*]",
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated values.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask a lake, in SQL.

      epicast lake query lake "SELECT stream, count(*) FROM silver GROUP BY stream"

      epicast lake query lake --stream prices --as-of 0:1200

    bronze has every event, silver the current value of every key, gold counts per minute, savings
    what garbage collection saves. Keys and values are bytes; `decode(key, 'utf-8')` is text.
    """
    if sum(value is not None for value in (as_of, as_of_time, version)) > 1:
        raise typer.BadParameter("one of --as-of, --as-of-time and --version")
    if as_of is not None and len(stream or []) != 1:
        raise typer.BadParameter("--as-of is a place in one stream; name it with --stream")
    from epicast.pipeline.lake import query as questions
    from epicast.pipeline.lake.failures import in_a_sentence
    from epicast.pipeline.lake.layout import Lake
    from epicast.pipeline.session import spark_session

    found = Lake.open(lake)
    streams = questions.check_streams(found, stream or [])
    moment = questions.Moment(
        None if as_of is None else questions.parse_place(as_of),
        None if as_of_time is None else questions.parse_time(as_of_time),
        version,
    )
    with reminder(_STARTING), spark_session(master) as spark, in_a_sentence(found.folder):
        if not as_is:
            questions.refresh(spark, found)
        states = questions.with_views(spark, found, moment, streams)
        for name, state in zip(streams, states, strict=False):
            say(f"{name} as of {state.watermark}, from version {state.version} of bronze")
        rows, more = questions.answer(spark, sql, limit)
    if as_json:
        print_json([_plain(row) for row in rows.to_pylist()])
    elif as_csv:
        _print_csv(rows)
    else:
        print_table(
            rows.column_names,
            [
                ["" if v is None else str(v) for v in _plain(row).values()]
                for row in rows.to_pylist()
            ],
        )
    if more:
        say(f"Only the first {limit} rows; --limit 0 shows all.")


def refresh(
    lake: LakeArgument, master: MasterOption = "local[*]", as_json: JsonOption = False
) -> None:
    """Bring silver and gold up to date with bronze."""
    from epicast.pipeline.lake import query as questions
    from epicast.pipeline.lake.failures import in_a_sentence
    from epicast.pipeline.lake.layout import Lake
    from epicast.pipeline.session import spark_session

    found = Lake.open(lake)
    with reminder(_STARTING), spark_session(master) as spark, in_a_sentence(found.folder):
        streams = questions.refresh(spark, found)
    if as_json:
        print_json({"updated": streams})
    else:
        say(f"Updated: {', '.join(streams)}." if streams else "There was nothing new.")


def compact(
    lake: LakeArgument,
    stream: Annotated[
        list[str] | None, typer.Option(help="Only this stream.", show_default="all")
    ] = None,
    keep_versions: Annotated[
        int,
        typer.Option(min=1, help="The newest version, and those from before the last compactions."),
    ] = 3,
    older_than: Annotated[
        float, typer.Option(min=0.0, metavar="HOURS", help="Delete no younger file.")
    ] = 24.0,
    master: MasterOption = "local[*]",
    as_json: JsonOption = False,
) -> None:
    """Make few files of many, and let the lake forget what the streams have forgotten.

    Events that a stream's policy or a GC event has collected become tombstones. silver and gold
    are brought up to date first, so that nothing is lost to them. Ingestion may go on meanwhile.
    """
    import msgspec

    from epicast.pipeline.lake import compaction
    from epicast.pipeline.lake import query as questions
    from epicast.pipeline.lake.failures import in_a_sentence
    from epicast.pipeline.lake.layout import Lake
    from epicast.pipeline.session import spark_session

    found = Lake.open(lake)
    streams = questions.check_streams(found, stream or [])
    done = []
    with (
        reminder(_STARTING),
        spark_session(master) as spark,
        in_a_sentence(found.folder),
        Progress("compacting") as progress,
    ):
        questions.refresh(spark, found)
        progress.begin(len(streams))
        for name in streams:
            done += compaction.compact(spark, found, [name])
            progress.advance()
        deleted = compaction.forget(found, keep_versions, older_than * 3600)
    if as_json:
        print_json({"compacted": msgspec.to_builtins(done), "deleted": deleted})
        return
    heads = ["stream", "files", "rows", "bytes"]
    print_table(
        heads,
        [
            [
                each.stream,
                f"{each.files_before:,} → {each.files_after:,}",
                f"{each.rows_before:,} → {each.rows_after:,}",
                f"{each.bytes_before:,} → {each.bytes_after:,}",
            ]
            for each in done
        ],
    )
    say(f"{len(deleted)} old files deleted.")


def _print_csv(rows: pa.Table) -> None:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(rows.column_names)
    writer.writerows(_plain(row).values() for row in rows.to_pylist())
    write_lines(text.getvalue().encode())


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in row.items()}


def _plain_value(value: Any) -> Any:
    """As text where it is text, which JSON demands; everything else as it is."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain_value(item) for item in value]
    if isinstance(value, dict):
        return _plain(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
