"""`epicast proxy`: the proxy of one region."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epicast.cli.serving import (
    FileArgument,
    JsonOption,
    LogFormatChoice,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    load_file,
    run_service,
)


def register(app: typer.Typer) -> None:
    app.command("proxy")(proxy)


def proxy(
    file: FileArgument,
    region: Annotated[str, typer.Argument(help="The region whose proxy this is.")],
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Listen there instead; 0: any free port.",
            show_default="the file's",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the histories instead.", show_default="the file's"),
    ] = None,
    as_json: JsonOption = False,
    log_format: LogFormatOption = LogFormatChoice.text,
    log_level: LogLevelOption = LogLevel.info,
) -> None:
    """Run one region's proxy until Ctrl-C or SIGTERM.

    It numbers the events of the streams its region owns, stores the events of all streams, and
    serves the agents and clients of its region. Run one for each region of the file, each on a
    machine of its own. It stops in good order: everything is on disk, and the exit status is 0.
    """
    from epicast.geo.logs import configure_logs
    from epicast.geo.proxy import ProxyService

    configure_logs(log_format.value, log_level.value, region=region)
    geoplex = load_file(file)
    service = ProxyService(geoplex, region, port=port, data=data)

    run_service(service, "proxy of", geoplex, region, as_json)
