"""`epicast backup`: a copy of streams that outlives their proxies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.connecting import DEFAULT_ADDRESS, FromOption
from epicast.cli.output import print_json, print_table, say
from epicast.cli.progress import Progress
from epicast.cli.serving import JsonOption, load_file

if TYPE_CHECKING:
    from epicast.backup import StreamEntry


def register(app: typer.Typer) -> None:
    app.command("backup")(backup)


def backup(
    folder: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Where the backup is, or is to be.")
    ],
    streams: Annotated[
        list[str] | None, typer.Argument(help="Streams, by name.", show_default="see --all")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All streams there are.")] = False,
    source: FromOption = DEFAULT_ADDRESS,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Read the data folder of a proxy that is stopped, instead of asking one."
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--geoplex", metavar="FILE", help="The deployment; with --data.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy streams from a running proxy, or from the folder of one that is stopped.

      epicast backup --all --to backups/monday

      epicast backup orders --to backups/orders --data /var/epicast/us --geoplex geoplex.toml

    The backup has everything a new owner of the stream needs: events, tombstones, the epoch, and
    the last number of each publisher. Run again with the same folder, it only adds what is new;
    interrupted, it goes on where it was, and what was complete before can be restored meanwhile.
    `epicast restore DIR --check` compares all checksums.
    """
    names = streams or []
    if bool(names) == every:
        raise typer.BadParameter("name streams, or say --all")
    if (data is None) != (file is None):
        raise typer.BadParameter("--data and --geoplex go together")
    with Progress("events copied") as progress:
        report = _Report(progress)
        if data is not None and file is not None:
            found = _from_folder(file, data, names, folder, report)
        else:
            found = _from_proxy(source, names, folder, report)
    _show(found, report.taken, folder, as_json)


class _Report:
    """How far each stream is, as progress of all of them."""

    def __init__(self, progress: Progress) -> None:
        self.taken: dict[str, int] = {}
        self._progress = progress
        self._at: dict[str, int] = {}
        self._total = 0

    def __call__(self, stream: str, at: int, end: int) -> None:
        begun = stream in self._at
        before = self._at.get(stream, at)
        self._at[stream] = at
        if not begun:
            self._total += end - at
            self._progress.grow(max(1, self._total))
        if at > before:
            self.taken[stream] = self.taken.get(stream, 0) + at - before
            self._progress.advance(by=at - before)


def _from_proxy(
    source: str, names: list[str], folder: Path, report: _Report
) -> dict[str, StreamEntry]:
    from epicast.backup import backup_running
    from epicast.client import connect
    from epicast.runtime import run

    async def work() -> dict[str, StreamEntry]:
        async with connect(source, agent=False) as node:
            wanted = names or [info.name for info in node.streams()]
            return await backup_running(node, wanted, folder, source, report)

    return run(work())


def _from_folder(
    file: Path, data: Path, names: list[str], folder: Path, report: _Report
) -> dict[str, StreamEntry]:
    from epicast.backup import backup_data_folder

    geoplex = load_file(file)
    return backup_data_folder(geoplex, names or list(geoplex.streams), data, folder, report)


def _show(
    found: dict[str, StreamEntry], taken: dict[str, int], folder: Path, as_json: bool
) -> None:
    for name, entry in found.items():
        if entry.warning:
            say(f"epicast: {name}: {entry.warning}")
    if as_json:
        print_json({"folder": str(folder), "streams": described(found, taken)})
        return
    print_table(
        ["stream", "numbers", "new", "live", "epoch", "publishers", "size"],
        [
            [
                name,
                f"{entry.start}..{entry.end}",
                str(taken.get(name, 0)),
                str(entry.live_events),
                str(entry.epoch),
                str(entry.publishers),
                str(sum(file.size for file in entry.files)),
            ]
            for name, entry in found.items()
        ],
    )


def described(found: dict[str, StreamEntry], taken: dict[str, int]) -> dict[str, Any]:
    import msgspec

    return {
        name: {
            **{key: value for key, value in msgspec.to_builtins(entry).items() if key != "files"},
            "files": len(entry.files),
            "bytes": sum(file.size for file in entry.files),
            "new": taken.get(name, 0),
        }
        for name, entry in found.items()
    }
