"""`epicast nemesis`: real processes, mistreated on purpose."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epicast.cli.output import print_json, print_line, print_table, say

if TYPE_CHECKING:
    from epicast.experiments.nemesis.running import Settings
    from epicast.experiments.nemesis.verdict import Verdict

_MB_PER_MILLION = 330
"""Of logs, and of what the checker needs to compare them."""


def register(app: typer.Typer) -> None:
    app.command("nemesis")(nemesis)


def nemesis(
    minutes: Annotated[float, typer.Option(min=0.1, help="Of load and faults.")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="What the schedule is drawn from.")] = 1,
    regions: Annotated[int, typer.Option(min=1, max=9)] = 3,
    replicas: Annotated[int, typer.Option(min=1, max=9, help="Of each region's chain.")] = 3,
    rate: Annotated[
        int, typer.Option(min=1, help="Events per second, of all publishers together.")
    ] = 200_000,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for data, logs, schedule and verdict, new or empty.",
                     show_default="a temporary one, kept if something is wrong"),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the schedule and do nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:  # fmt: skip
    """Regions of real processes under load; kill, stop, cut, fill and corrupt; count what is wrong.

    Publishers and subscribers write down everything; `python -m epicast_checker`, which shares no
    code with the rest, judges it. Exit status 0: no promise was broken; 1: one was, or something
    did not become well again; 2: it could not be run or judged.
    """
    from epicast.experiments.nemesis.running import Settings

    settings = Settings(
        seconds=60 * minutes, seed=seed, regions=regions, replicas=replicas, rate=rate,
        rows=max(1, min(2000, rate // 100)),
    )  # fmt: skip
    if plan:
        for fault in settings.schedule():
            print_line(str(fault))
        return
    folder = _folder(out)
    _check_room(folder, settings)
    verdict = _run(settings, folder, as_json)
    if out is None and verdict.clean:
        shutil.rmtree(folder)
    else:
        say(f"everything is in {folder}")
    if not verdict.clean:
        raise typer.Exit(1)


def _run(settings: Settings, folder: Path, as_json: bool) -> Verdict:
    import msgspec

    from epicast.experiments.nemesis.running import Run

    say(f"{len(settings.schedule())} faults from seed {settings.seed}: {folder}/schedule.txt")
    verdict = Run(settings, folder, say=say).run()
    document = {**msgspec.to_builtins(verdict), "clean": verdict.clean}
    (folder / "verdict.json").write_bytes(msgspec.json.format(msgspec.json.encode(document)))
    if as_json:
        print_json(document)
    else:
        print_table(["nemesis", ""], _rows(verdict))
    for trouble in verdict.troubles:
        say(f"epicast: {trouble}")
    if verdict.events_per_s < settings.rate:
        say(f"{verdict.events_per_s:,} events/s were acknowledged, of {settings.rate:,} wanted")
    say("No promise was broken." if verdict.clean else "epicast: promises were broken.")
    return verdict


def _folder(out: Path | None) -> Path:
    from epicast.core import ConfigError

    if out is None:
        return Path(tempfile.mkdtemp(prefix="epicast-nemesis-"))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out: {out}: exists and is not empty; name another folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out: {out}: {error.strerror}") from None
    return out.absolute()


def _check_room(folder: Path, settings: Settings) -> None:
    from epicast.core import ConfigError

    needed = settings.rate * settings.seconds * _MB_PER_MILLION
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ConfigError(
            f"logs of so many events, and comparing them, need about {needed / 1e9:.0f} GB; "
            f"{folder} has {free / 1e9:.0f} GB: name another with --out, or ask for less"
        )


def _rows(verdict: Verdict) -> list[list[str]]:
    stalls, waits = verdict.ack_stalled_s, verdict.stalled_s
    return [
        ["seed", f"{verdict.seed}"],
        ["load", f"{verdict.seconds:g} s, {verdict.events_per_s:,} events/s acknowledged"],
        ["events sent", f"{verdict.sent:,}"],
        ["acknowledged", f"{verdict.acked:,}"],
        ["refused", f"{verdict.refused:,}"],
        ["delivered to all subscribers", f"{verdict.delivered:,}"],
        ["delivered as tombstones", f"{verdict.tombstones:,}"],
        ["faults", ", ".join(f"{count} {kind}" for kind, count in verdict.faults.items())],
        *([name.replace("_", " "), f"{count:,}"] for name, count in verdict.counts.items()),
        ["undecided", f"{verdict.undecided:,}"],
        ["longest wait for an acknowledgement", _longest(stalls)],
        ["longest wait of a subscriber", _longest(waits)],
        ["did not become well again", f"{len(verdict.troubles)}"],
    ]


def _longest(found: object) -> str:
    assert isinstance(found, dict)
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found.items())
