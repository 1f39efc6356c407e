"""`epicast topic`: take part in a topic among peers from the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from itertools import count as counting
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.connecting import CaOption, CertificateOption, KeyOption
from epicast.cli.output import bytes_field, print_json, print_table, say, write_lines
from epicast.cli.serving import JsonOption

if TYPE_CHECKING:
    from epicast.client import PeerNode, Topic, TopicItem
    from epicast.client.topics import Joining

app = typer.Typer(no_args_is_help=True, help="Topics among peers: no proxy is needed.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of the topic.")]
ContactOption = Annotated[
    list[str] | None,
    typer.Option(
        "--contact", metavar="HOST:PORT", help="A peer to join through; may be given several times."
    ),
]
ListenOption = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Where others reach this peer.",
        show_default="any port, at the address towards the contact",
    ),
]
ModeOption = Annotated[
    str | None, typer.Option("--mode", help="How events spread.", show_default="gossip")
]
GeoplexOption = Annotated[
    Path | None,
    typer.Option(
        "--geoplex", metavar="FILE", help="A geoplex.toml that declares the topic: contacts, mode."
    ),
]
BudgetOption = Annotated[
    int | None,
    typer.Option(
        "--budget",
        metavar="BYTES",
        min=1,
        help="The most that this peer sends in any second, headers included.",
        show_default="no limit",
    ),
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds to join in; then it is an error.")
]


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


def register(parent: typer.Typer) -> None:
    parent.add_typer(app, name="topic")


@app.command("join")
def join(
    name: NameArgument,
    contact: ContactOption = None,
    listen: ListenOption = None,
    mode: ModeOption = None,
    geoplex: GeoplexOption = None,
    early: Annotated[
        float | None,
        typer.Option(
            help="Of an ordered topic: print events when they are so likely to be in their final "
            "places, say 0.99, and later which of them were."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="End after so many events (with --early: confirmed).")
    ] = None,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    key_file: KeyOption = None,
    budget: BudgetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Join a topic and print its events as they come, until Ctrl-C.

    A line is who published the event and its number, its key and its value, separated by tabs; what
    is no event begins with #. Without a contact this is the first peer. One that cannot be reached
    is tried again and again.

      epicast topic join chat --listen 127.0.0.1:7500

      epicast topic join chat --contact 127.0.0.1:7500 --json

      epicast topic join orders --mode ordered --contact 127.0.0.1:7500 --early 0.99
    """
    peers = _peers(contact, listen, geoplex, budget, ca, certificate, key_file)

    async def main() -> None:
        from epicast.runtime.waiting import end_task, spawn

        async with _opened(name, peers) as node:
            topic = node.topic(name, mode, join_within=None)
            subscription = topic.subscribe(early=early)
            say(f"This peer is {node.address}: others may join through it.")
            announcing = spawn(_announce(topic))
            seen = 0
            try:
                async for item in subscription:
                    _print(item, as_json)
                    seen += _certain(item, early is not None)
                    if count is not None and seen >= count:
                        return
            finally:
                await end_task(announcing)

    try:
        _run(main())
    except BrokenPipeError:
        # Whoever read this has enough. Python would complain once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@app.command("publish")
def publish(
    name: NameArgument,
    value: Annotated[
        list[str] | None,
        typer.Option(help="Publish this event; may be given several times."),
    ] = None,
    key: Annotated[str, typer.Option(help="Of every event.", show_default="none")] = "",
    contact: ContactOption = None,
    listen: ListenOption = None,
    mode: ModeOption = None,
    geoplex: GeoplexOption = None,
    timeout: TimeoutOption = 10.0,
    stay: Annotated[
        float,
        typer.Option(min=0.0, help="Seconds to stay afterwards: events spread by being passed on."),
    ] = 2.0,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    key_file: KeyOption = None,
    budget: BudgetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Join a topic, publish events, and leave once they had time to spread.

    The events are those of --value, or else the lines of stdin.

      epicast topic publish chat --contact 127.0.0.1:7500 --value hello
    """
    peers = _peers(contact, listen, geoplex, budget, ca, certificate, key_file)
    if not contact and not _declared_contacts(name, geoplex):
        raise typer.BadParameter(
            "there is nobody to publish to: give --contact HOST:PORT, the address of a peer of the "
            "topic, or a --geoplex FILE that declares its contacts. The first peer of a topic is "
            f"`epicast topic join {name}`"
        )
    if value is None:
        values = [line.rstrip(b"\n") for line in sys.stdin.buffer]
    else:
        values = [each.encode() for each in value]
    if not values:
        raise typer.BadParameter("nothing to publish: give --value, or lines on stdin")

    async def main() -> tuple[PeerNode, int]:
        from epicast.runtime.waiting import Bell

        async with _opened(name, peers, timeout) as node:
            topic = node.topic(name, mode, join_within=None)
            await topic.joined(timeout)
            keys = [key.encode()] * len(values) if key else None
            last = await topic.publish_many(values, keys)
            await Bell().wait(stay)
            return node, last

    node, last = _run(main())
    if as_json:
        print_json({"topic": name, "source": f"{node.id:016x}", "events": len(values)})
    else:
        say(f"Published {last} events to {name!r}.")


@app.command("status")
def status(
    name: NameArgument,
    contact: ContactOption = None,
    listen: ListenOption = None,
    mode: ModeOption = None,
    geoplex: GeoplexOption = None,
    timeout: TimeoutOption = 10.0,
    watch: Annotated[float, typer.Option(min=0.1, help="Seconds to watch the topic for.")] = 2.0,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    key_file: KeyOption = None,
    budget: BudgetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Join a topic for a moment and say what a peer sees of it.

    There is nobody who knows all of a topic: these are the counters of one more member. Exit
    status 2 if it cannot be joined.
    """
    peers = _peers(contact, listen, geoplex, budget, ca, certificate, key_file)

    async def main() -> dict[str, Any]:
        from epicast.runtime.waiting import Bell

        async with _opened(name, peers, timeout) as node:
            topic = node.topic(name, mode, join_within=None)
            await topic.joined(timeout)
            await Bell().wait(watch)
            return _described(node, topic, watch)

    described = _run(main())
    if as_json:
        print_json(described)
    else:
        print_table(("", "here"), [(key, f"{value}") for key, value in described.items()])


def _declared_contacts(name: str, geoplex: Path | None) -> bool:
    from epicast.cli.serving import load_file

    declared = None if geoplex is None else load_file(geoplex).topics.get(name)
    return declared is not None and bool(declared.contacts)


async def _announce(topic: Topic) -> None:
    await topic.joined()
    say(f"Joined topic {topic.name!r}.")


@asynccontextmanager
async def _opened(
    name: str, peers: Sequence[Joining], timeout: float | None = None
) -> AsyncIterator[PeerNode]:
    """A peer that listens where its contact finds it. That takes the contact's address: while its
    name is not known, it is tried again like one who does not answer."""
    from epicast.client import AccessDenied, ConnectFailed, JoinFailed
    from epicast.runtime.waiting import Bell

    waited, pause = 0.0, _FIRST_PAUSE_S
    for attempt in counting(1):
        try:
            node = await peers[(attempt - 1) % len(peers)]
            break
        except AccessDenied:
            raise
        except ConnectFailed as error:
            if timeout is not None and waited + pause > timeout:
                raise JoinFailed(
                    f"topic {name!r} was not joined within {timeout:g} seconds: no contact "
                    f"answers, attempt {attempt}: {error}"
                ) from None
            if attempt <= len(peers):
                say(f"topic {name}: no contact answers, trying again: {error}")
        await Bell().wait(pause)
        waited, pause = waited + pause, min(2 * pause, _LONGEST_PAUSE_S)
    try:
        yield node
    finally:
        await node.close()


def _peers(
    contact: list[str] | None,
    listen: str | None,
    geoplex: Path | None,
    budget: int | None,
    ca: Path | None,
    certificate: Path | None,
    key_file: Path | None,
) -> list[Joining]:
    """The same peer, with each of its contacts as the first."""
    from epicast.client import TlsOptions, join
    from epicast.runtime.limits import Limits

    contacts = contact or []
    tls = None
    if any(each.startswith("epicasts://") for each in contacts):
        tls = TlsOptions(ca=ca, certificate=certificate, key=key_file)
    limits = None if budget is None else Limits(max_send_bytes_per_second=budget)
    turns = [[*contacts[first:], *contacts[:first]] for first in range(max(1, len(contacts)))]
    return [join(*turn, listen=listen, geoplex=geoplex, tls=tls, limits=limits) for turn in turns]


def _run(main: Coroutine[Any, Any, Any]) -> Any:
    import logging

    from epicast.geo.logs import TextLines
    from epicast.runtime import run

    handler = logging.StreamHandler()
    handler.setFormatter(TextLines("epicast: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    return run(main)


def _certain(item: TopicItem, early: bool) -> int:
    """How many events, or gaps, are certain with this."""
    from epicast.client import Confirmed, Gap

    if not early or isinstance(item, Gap):
        return 1
    return item.events if isinstance(item, Confirmed) else 0


def _print(item: TopicItem, as_json: bool) -> None:
    from msgspec.json import encode

    fields, line = _written(item)
    write_lines((encode(fields) if as_json else line) + b"\n")


def _written(item: TopicItem) -> tuple[dict[str, Any], bytes]:
    """An item as JSON has it, and as a line."""
    from epicast.client import Confirmed, Gap, Revised

    match item:
        case Gap(events=events, source=0):
            line = b"# %d events were given up: too slow" % events
            return {"kind": "gap", "events": events}, line
        case Gap(events=events, first=first, last=last):
            source = f"{item.source:016x}"
            fields = {"kind": "gap", "events": events, "source": source}
            line = b"# %d events are missing: %s/%d to %d" % (events, source.encode(), first, last)
            return fields | {"first": first, "last": last}, line
        case Confirmed(events=events, up_to=up_to):
            fields = {"kind": "confirmed", "events": events, "up_to": up_to}
            return fields, b"# confirmed: the first %d events" % up_to
        case Revised(events=events, after=after):
            fields = {"kind": "revised", "events": events, "after": after}
            return fields, b"# revised: the first %d events stand, the %d after them do not" % (
                after, events,
            )  # fmt: skip
    source = f"{item.stream:016x}"
    fields = {"kind": "data", "source": source, "seq": item.seq, "time_ns": item.time}
    fields |= bytes_field("key", item.key) | bytes_field("value", item.payload)
    return fields, b"%s/%d\t%s\t%s" % (source.encode(), item.seq, item.key, item.payload)


def _described(node: PeerNode, topic: Topic, watched: float) -> dict[str, Any]:
    port = node.statistics()
    dropped = sum(number for name, number in port.items() if name.startswith("drop."))
    return {
        "topic": topic.name,
        "mode": topic.mode,
        "state": topic.state,
        "address": node.address,
        **{name: number for name, number in topic.statistics().items() if number},
        "watched_s": watched,
        "bytes_sent": port["bytes_sent"],
        "bytes_received": port["bytes_received"],
        "dropped_messages": dropped,
    }
