"""`epicast status`: how a running geoplex is, and whether somebody should look at it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.connecting import (
    DEFAULT_ADDRESS,
    CaOption,
    CertificateOption,
    FromOption,
    KeyOption,
    TokenFileOption,
    credentials_for,
    proof,
)
from epicast.cli.output import print_json, print_line, print_table, say
from epicast.cli.serving import JsonOption

if TYPE_CHECKING:
    from epicast.client.credentials import Credentials
    from epicast.deployment import Address
    from epicast.geo.status import AgentStatus, ProxyStatus

_TIMEOUT_S = 5.0


def register(app: typer.Typer) -> None:
    app.command("status")(status)


@dataclass
class Found:
    """What was answered."""

    proxies: dict[str, ProxyStatus] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    """Regions that do not answer, and why."""
    agent: AgentStatus | None = None
    """If it was an agent that was asked first."""


def status(
    source: FromOption = DEFAULT_ADDRESS,
    only: Annotated[
        bool, typer.Option("--only", help="Ask this one node, not those of the other regions.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Print alarms only; exit with 1 if there is any.")
    ] = False,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    key_file: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how far each stream is in each region, what it takes to store, and who is attached.

    Asks one proxy and, through what that says, all others; or an agent, and then its proxy. A
    number in brackets is how far a region is behind the stream's owner; "live" and "collected"
    are the events that have to be kept and the share of those that need not; "cursors" are
    subscriptions of clients, agents and other proxies. Alarms say what somebody should look at:
    a region that is not heard of, a stream that stands still while another region has more of it,
    a disk that does not store. The exit status is 1 if a region does not answer, and with --check
    if there is any alarm.
    """
    from epicast.client.addresses import parse_encrypted_urls
    from epicast.runtime import run

    given = proof(source, token_file, ca, certificate, key_file)
    addresses, _ = parse_encrypted_urls(source)
    found = run(ask_regions(addresses, only, credentials_for(source, given)))
    alarms = _alarms(found)
    if as_json:
        print_json(_document(found, alarms))
    elif check:
        _print_alarms(alarms)
        if not alarms:
            print_line(f"no alarms in {', '.join([*found.proxies] or ['the agent'])}")
    else:
        _print_agent(found.agent)
        _print(found.proxies)
        _print_alarms(alarms)
    for region, error in found.silent.items():
        say(f"epicast: {region}: {error}")
    if found.silent or (check and alarms):
        raise typer.Exit(1)


async def ask_regions(addresses: list[Address], only: bool, proven: Credentials | None) -> Found:
    from epicast.core import EpicastError
    from epicast.deployment import parse_address
    from epicast.geo.status import AgentStatus, ask_any_status, ask_status

    tls = None if proven is None else proven.for_finding()
    token = "" if proven is None else proven.token
    asked = None
    for address in addresses[:-1]:
        with suppress(EpicastError, OSError):
            asked = await ask_any_status(*address, timeout=_TIMEOUT_S, tls=tls, token=token)
            break
    if asked is None:
        asked = await ask_any_status(*addresses[-1], timeout=_TIMEOUT_S, tls=tls, token=token)
    found = Found()
    if isinstance(asked, AgentStatus):
        found.agent = asked
        if only:
            return found
        try:
            there = parse_address(asked.proxy)
            asked = await ask_status(*there, timeout=_TIMEOUT_S, tls=tls, token=token)
        except EpicastError as error:
            found.silent[asked.region] = str(error)
            return found
    answers = {asked.region: asked}
    for region, where in asked.regions.items():
        if only or region == asked.region:
            continue
        try:
            there = parse_address(where)
            answers[region] = await ask_status(*there, timeout=_TIMEOUT_S, tls=tls, token=token)
        except EpicastError as error:
            found.silent[region] = str(error)
    found.proxies = {name: answers[name] for name in asked.regions if name in answers}
    return found


def _alarms(found: Found) -> list[dict[str, Any]]:
    """Of all who answered, each with who says so, and one for each who did not."""
    import msgspec

    saying = [(f"proxy of {name}", proxy.alarms) for name, proxy in found.proxies.items()]
    if found.agent is not None:
        saying.insert(0, (f"agent at {found.agent.address}", found.agent.alarms))
    alarms = [
        {"seen_by": who, **msgspec.to_builtins(alarm)} for who, said in saying for alarm in said
    ]
    for region, error in found.silent.items():
        alarms.append(
            {"seen_by": "epicast status", "kind": "unreachable", "other": region,
             "text": f"the proxy of {region} does not answer: {error}"}
        )  # fmt: skip
    return alarms


def _document(found: Found, alarms: list[dict[str, Any]]) -> dict[str, Any]:
    import msgspec

    anybody = found.agent or next(iter(found.proxies.values()))
    document: dict[str, Any] = {"geoplex": anybody.geoplex, "regions": {}}
    for region, proxy in found.proxies.items():
        fields = msgspec.to_builtins(proxy)
        for stream, described in zip(proxy.streams, fields["streams"], strict=True):
            described["gc_saving"] = round(stream.gc_saving, 6)
        document["regions"][region] = fields
    if found.agent is not None:
        document["agent"] = msgspec.to_builtins(found.agent)
    document["silent"] = found.silent
    document["alarms"] = alarms
    return document


def _print_alarms(alarms: list[dict[str, Any]]) -> None:
    for alarm in alarms:
        print_line(f"ALARM, {alarm['seen_by']}: {alarm['text']}")


def _print_agent(agent: AgentStatus | None) -> None:
    if agent is None:
        return
    attached = "attached to" if agent.attached else "cut off from"
    print_table(
        ["agent", "up for", "memory", "proxy", "clients"],
        [
            [
                agent.address,
                str(timedelta(seconds=int(agent.uptime_s))),
                _about(agent.resident_bytes),
                f"{attached} {agent.proxy}",
                str(agent.clients),
            ]
        ],
    )
    print_table(["stream", "here"], [[stream.name, str(stream.head)] for stream in agent.streams])


def _print(found: dict[str, ProxyStatus]) -> None:
    if not found:
        return
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
