"""`epicast status`: how a running geoplex is."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.connecting import DEFAULT_ADDRESS, FromOption
from epicast.cli.output import print_json, print_table, say
from epicast.cli.serving import JsonOption

if TYPE_CHECKING:
    from epicast.deployment import Address
    from epicast.geo.status import ProxyStatus

_TIMEOUT_S = 5.0


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(
    source: FromOption = DEFAULT_ADDRESS,
    only: Annotated[
        bool, typer.Option("--only", help="Ask this one proxy, not those of the other regions.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how far each stream is in each region, what it takes to store, and who is attached.

    Asks one proxy and, through what that says, all others. A number in brackets is how far a
    region is behind the stream's owner; "live" and "collected" are the events that have to be
    kept and the share of those that need not; "cursors" are subscriptions of clients, agents and
    other proxies. The exit status is 1 if a region does not answer.
    """
    from epicast.client.addresses import parse_url
    from epicast.runtime import run

    found, silent = run(_ask(parse_url(source), only))
    if as_json:
        print_json(_document(found, silent))
    else:
        _print(found)
    for region, error in silent.items():
        say(f"epicast: {region}: {error}")
    if silent:
        raise typer.Exit(1)


async def _ask(address: Address, only: bool) -> tuple[dict[str, ProxyStatus], dict[str, str]]:
    """What each region says, and why some do not."""
    from epicast.core import EpicastError
    from epicast.deployment import parse_address
    from epicast.geo.status import ask_status

    asked = await ask_status(*address, timeout=_TIMEOUT_S)
    found, silent = {asked.region: asked}, {}
    for region, where in asked.regions.items():
        if only or region == asked.region:
            continue
        try:
            found[region] = await ask_status(*parse_address(where), timeout=_TIMEOUT_S)
        except EpicastError as error:
            silent[region] = str(error)
    return {name: found[name] for name in asked.regions if name in found}, silent


def _document(found: dict[str, ProxyStatus], silent: dict[str, str]) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = {"geoplex": next(iter(found.values())).geoplex, "regions": {}}
    for region, proxy in found.items():
        fields = msgspec.to_builtins(proxy)
        for stream, described in zip(proxy.streams, fields["streams"], strict=True):
            described["gc_saving"] = round(stream.gc_saving, 6)
        document["regions"][region] = fields
    document["silent"] = silent
    return document


def _print(found: dict[str, ProxyStatus]) -> None:
    print_table(
        ["region", "address", "up for", "memory", "proxies", "attached", "cursors"],
        [
            [
                name,
                proxy.regions[name],
                str(timedelta(seconds=int(proxy.uptime_s))),
                _about(proxy.resident_bytes),
                str(proxy.proxies),
                str(proxy.attached),
                str(proxy.subscriptions),
            ]
            for name, proxy in found.items()
        ],
    )
    any_proxy = next(iter(found.values()))
    rows = []
    for at, stream in enumerate(any_proxy.streams):
        of_owner = found.get(stream.owner, any_proxy).streams[at]
        rows.append(
            [
                stream.name,
                stream.owner,
                *(_progress(proxy.streams[at].head, of_owner.head) for proxy in found.values()),
                str(of_owner.live_events),
                f"{of_owner.gc_saving:.1%}",
                _about(of_owner.stored_bytes),
            ]
        )
    print_table(["stream", "owner", *found, "live", "collected", "stored"], rows)


def _progress(head: int, of_owner: int) -> str:
    return str(head) if head >= of_owner else f"{head} (-{of_owner - head})"


def _about(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
