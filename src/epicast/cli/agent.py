"""`epicast agent`: an agent for the applications of this machine."""

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
    app.command("agent")(agent)


def agent(
    file: FileArgument,
    region: Annotated[str, typer.Argument(help="The region this machine is in.")],
    host: Annotated[
        str | None,
        typer.Option(
            help="Listen on this address of the machine.", show_default="the one towards the proxy"
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free port.")] = 0,
    certificate: Annotated[
        Path | None,
        typer.Option(help="With security: its certificate.", show_default="the file's"),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--certificate-key", help="Of its certificate.", show_default="the file's"),
    ] = None,
    as_json: JsonOption = False,
    log_format: LogFormatOption = LogFormatChoice.text,
    log_level: LogLevelOption = LogLevel.info,
) -> None:
    """Run an agent beside the applications of a machine, until Ctrl-C or SIGTERM.

    It follows all streams with the help of the region's other agents and of the proxy, so that
    any number of applications on this machine cost the region no more than one. They attach to it
    as plain clients: `epicast.connect(ADDRESS, agent=False)`.
    """
    from epicast.client.addresses import address_towards
    from epicast.geo.agent import AgentService
    from epicast.geo.logs import configure_logs
    from epicast.runtime.tls import TlsFiles

    configure_logs(log_format.value, log_level.value, region=region)
    geoplex = load_file(file)
    host = host or address_towards(geoplex.region(region).address)
    files = None
    if certificate is not None and geoplex.security is not None:
        own_key = None if key is None else str(key)
        files = TlsFiles(geoplex.security.ca, str(certificate), own_key)
    service = AgentService(geoplex, region, host=host, port=port, files=files)

    run_service(service, "agent in", geoplex, region, as_json)
