"""`epicast up`: a whole geoplex on this machine."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from epicast.cli.output import print_table, say
from epicast.cli.serving import (
    JsonOption,
    LogFormatChoice,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    announce_json,
    load_file,
)

if TYPE_CHECKING:
    from epicast.deployment import Geoplex
    from epicast.geo.births import Ended
    from epicast.geo.local import LocalGeoplex

_LOOK_EVERY_S = 3600.0


def register(app: typer.Typer) -> None:
    app.command("up")(up)


def up(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A geoplex.toml, all of whose proxies are run here.",
            show_default="three regions on loopback",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Without a file: the folder of the histories.", show_default="./epicast-data"
        ),
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Without a file: keep everything in memory only.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65_533,
            help="Without a file: the first port to try.",
            show_default="7400",
        ),
    ] = None,
    as_json: JsonOption = False,
    log_format: LogFormatOption = LogFormatChoice.text,
    log_level: LogLevelOption = LogLevel.warning,
) -> None:
    """Run all proxies of a geoplex on this machine until Ctrl-C.

    Without a file these are three regions, us, eu and ap, on loopback, with the streams
    invalidations, prices and audit. Then, in another terminal:

      epicast subscribe prices

      epicast publish prices --key ACME --value 42.0

    What was published with its history on disk is there again at the next start. The exit status
    is 0 after Ctrl-C, 1 if a proxy ended by itself.
    """
    from epicast.deployment import EMBEDDED_PORTS
    from epicast.geo.local import LocalGeoplex

    geoplex = _geoplex(file, data, memory, port)
    signal.signal(signal.SIGTERM, _interrupt)
    local = LocalGeoplex(
        geoplex,
        first_port=(port or EMBEDDED_PORTS[0]) if file is None else None,
        log_format=log_format.value,
        log_level=log_level.value,
        say=say,
    )
    with local:
        try:
            _announce(local, as_json)
            ended = _watch(local)
        except KeyboardInterrupt:
            say("Stopping …")
            local.close()
            say("Stopped.")
            return
    say(
        f"epicast: the proxy of {ended.region!r} ended with status {ended.status}, so everything "
        "was stopped; what it wrote above says why"
    )
    raise typer.Exit(1)


def _watch(local: LocalGeoplex) -> Ended:
    """Until a proxy ends that is alone. A replica of several is started again."""
    while True:
        ended = local.wait_ended(_LOOK_EVERY_S)
        if ended is None:
            continue
        if not local.geoplex.replica(ended.region)[0].is_chain:
            return ended
        say(f"The replica {ended.region!r} ended with status {ended.status}; starting it again.")
        local.start(ended.region)


def _geoplex(file: Path | None, data: Path | None, memory: bool, port: int | None) -> Geoplex:
    if file is not None:
        if data is not None or memory or port is not None:
            raise typer.BadParameter("--data, --memory and --port are for running without a file")
        return load_file(file)
    from epicast.deployment import embedded_geoplex

    if memory and data is not None:
        raise typer.BadParameter("either --data or --memory")
    folder = None if memory else str((data or Path("epicast-data")).absolute())
    return embedded_geoplex(data=folder)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM means what Ctrl-C means."""
    raise KeyboardInterrupt


def _announce(local: LocalGeoplex, as_json: bool) -> None:
    geoplex = local.geoplex
    processes = local.processes
    if as_json:
        announce_json(
            {
                "geoplex": geoplex.name,
                "regions": {
                    name: {
                        "address": local.address(name),
                        "pid": processes.get(region.replicas[0].name),
                        "data": region.data,
                        "replicas": {
                            replica.name: processes.get(replica.name) for replica in region.replicas
                        },
                    }
                    for name, region in geoplex.regions.items()
                },
                "streams": {name: stream.owner for name, stream in geoplex.streams.items()},
            }
        )
        return
    scheme = "epicast" if geoplex.security is None else "epicasts"
    print_table(
        ["region", "address", "process", "data"],
        [
            [
                each.name,
                f"{scheme}://{each.address}",
                str(processes.get(each.name, "")),
                each.data or "in memory",
            ]
            for each in geoplex.replicas
        ],
    )
    print_table(
        ["stream", "owner", "ack", "what it is"],
        [[s.name, s.owner, s.ack, s.description] for s in geoplex.streams.values()],
    )
    _suggest(local)


def _suggest(local: LocalGeoplex) -> None:
    streams: Any = local.geoplex.streams
    if not streams:
        say("Running; Ctrl-C stops it. There are no streams in this file yet.")
        return
    stream = "prices" if "prices" in streams else next(iter(streams))
    first, *_, last = local.geoplex.regions
    if local.geoplex.security is not None:
        say("Connections are encrypted: say who you are with --token-file or --certificate, and")
        say(f"whom you trust with --ca {local.geoplex.security.ca}, or in the environment.")
    say("Running; Ctrl-C stops it. In other terminals, try:")
    say(f"  epicast subscribe {stream} --from {local.address(last)}")
    say(f"  epicast publish {stream} --key ACME --value 42.0 --to {local.address(first)}")
    say(f"  epicast status --from {local.address(first)}")
