"""`epicast streams`: which streams there are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.connecting import (
    DEFAULT_ADDRESS,
    CaOption,
    CertificateOption,
    FromOption,
    KeyOption,
    TokenFileOption,
    proof,
)
from epicast.cli.output import print_json, print_table
from epicast.cli.serving import JsonOption, load_file

if TYPE_CHECKING:
    from epicast.protocols.sprinkler import StreamInfo


def register(app: typer.Typer) -> None:
    app.command("streams")(streams)


def streams(
    file: Annotated[
        Path | None,
        typer.Argument(help="A geoplex.toml.", show_default="ask a running geoplex"),
    ] = None,
    source: FromOption = DEFAULT_ADDRESS,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    key_file: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the streams of a running geoplex, or of a file, and what is promised of each."""
    if file is not None:
        found = _of_file(file)
    else:
        found = _running(source, proof(source, token_file, ca, certificate, key_file))
    if as_json:
        import msgspec

        fields = [
            {name: getattr(info, name) for name in info.__struct_fields__ if name != "owner"}
            for info in found
        ]
        print_json(msgspec.to_builtins(fields))
        return
    print_table(
        ["stream", "owner", "ack", "collected", "what it is"],
        [[i.name, i.region, i.level, _policy(i), i.description] for i in found],
    )


def _of_file(file: Path) -> list[StreamInfo]:
    from epicast.protocols.sprinkler import stream_info

    geoplex = load_file(file)
    infos = [stream_info(geoplex, stream) for stream in geoplex.streams.values()]
    return sorted(infos, key=lambda info: info.name)


def _running(source: str, given: dict[str, Any]) -> list[StreamInfo]:
    from epicast.client import sync

    with sync.connect(source, agent=False, **given) as node:
        return node.streams()


def _policy(info: Any) -> str:
    from epicast.deployment import format_duration

    parts = []
    if info.latest_per_key:
        parts.append("all but the latest per key")
    if info.last_n is not None:
        parts.append(f"all but the last {info.last_n}")
    if info.max_age_ns is not None:
        parts.append(f"after {format_duration(info.max_age_ns)}")
    return ", ".join(parts) or "nothing by itself"
