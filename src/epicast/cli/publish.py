"""`epicast publish`: events from the command line, a file, or thin air."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from epicast.cli.connecting import (
    DEFAULT_ADDRESS,
    CaOption,
    CertificateOption,
    EvidenceOption,
    KeyOption,
    StreamArgument,
    TokenFileOption,
    ToOption,
    proof,
    reminder,
)
from epicast.cli.output import print_json, say
from epicast.cli.serving import JsonOption

if TYPE_CHECKING:
    from epicast.client.sync import Stream

_READ_BYTES = 1 << 18
_BATCH = 1000
_BATCHES_PER_S = 20
"""With a rate: how often something is published, unless events are rarer."""

Events = tuple[list[bytes], list[bytes] | None]
"""Payloads, and their keys if they have any."""


def register(app: typer.Typer) -> None:
    app.command("publish")(publish)


def publish(
    stream: StreamArgument,
    value: Annotated[str | None, typer.Option(help="Publish this one event.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="An event per line of this file.", show_default="stdin")
    ] = None,
    key: Annotated[str, typer.Option(help="Of every event.", show_default="none")] = "",
    keyed: Annotated[
        bool, typer.Option("--keyed", help="Lines are a key, a tab and a value.")
    ] = False,
    collect: Annotated[
        str | None,
        typer.Option(
            metavar="PREDICATE",
            help="Publish a GC event: what this says of older events is obsolete, for good. Such "
            'as "key == \'ACME\'" or "seq < 1000".',
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Make up so many events instead of reading them.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="With --count: events per second.")
    ] = None,
    size: Annotated[int, typer.Option(min=0, help="With --count: bytes of a value.")] = 100,
    keys: Annotated[
        int, typer.Option(min=0, help="With --count: different keys; 0: none, or that of --key.")
    ] = 0,
    level: Annotated[
        str,
        typer.Option(
            help="Wait for more than the stream promises: regions=1 until one more region has "
            "stored the events.",
            show_default="the stream's own",
        ),
    ] = "",
    evidence: EvidenceOption = None,
    to: ToOption = DEFAULT_ADDRESS,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    key_file: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish events and wait until they are acknowledged; prints the last one's number.

      epicast publish prices --key ACME --value 42.0

      tail -f changes.log | epicast publish audit

      epicast publish prices --count 100000 --rate 5000 --keys 1000

    The exit status is 1 if events were refused; those before them are stored.
    """
    _check_sources(value=value, file=file, collect=collect, count=count)
    from epicast.client import PublishRefused, sync

    began = time.monotonic()
    given = proof(to, token_file, ca, certificate, key_file)
    with sync.connect(to, agent=False, evidence=evidence, **given) as node:
        target = node.stream(stream)
        waiting = (
            f"Waiting for an acknowledgement: is the proxy of {target.info.region!r} up? "
            f"See `epicast status`."
        )
        outcome = _Outcome(target, level, waiting)
        try:
            if collect is not None:
                outcome.collect(collect, key.encode())
            elif count is not None:
                value_bytes = b"x" * size if value is None else value.encode()
                _make_up(outcome, count, rate, value_bytes, key.encode(), keys)
            elif value is not None:
                outcome.publish(([value.encode()], [key.encode()] if key else None))
            else:
                for events in _lines(file, key.encode(), keyed):
                    outcome.publish(events)
        except PublishRefused as error:
            say(f"epicast: {error}")
            raise typer.Exit(1) from None
        finally:
            outcome.print(time.monotonic() - began, as_json)


class _Outcome:
    """What was acknowledged so far."""

    def __init__(self, stream: Stream, level: str, waiting: str) -> None:
        self.events = 0
        self.last = 0
        self._stream = stream
        self._level = level
        self._waiting = waiting

    def publish(self, events: Events) -> None:
        payloads, keys = events
        with reminder(self._waiting):
            self.last = self._stream.publish_many(payloads, keys, level=self._level)
        self.events += len(payloads)

    def collect(self, predicate: str, key: bytes) -> None:
        with reminder(self._waiting):
            self.last = self._stream.collect(predicate, key=key)
        self.events += 1

    def print(self, seconds: float, as_json: bool) -> None:
        if as_json:
            print_json(
                {
                    "stream": self._stream.name,
                    "events": self.events,
                    "last": self.last,
                    "seconds": round(seconds, 6),
                }
            )
        elif self.events:
            print(self.last)


def _check_sources(**given: object) -> None:
    named = [name for name, it in given.items() if it is not None]
    if len(named) > 1 and set(named) != {"value", "count"}:
        options = " and ".join(f"--{name}" for name in named)
        raise typer.BadParameter(f"{options} do not go together; give one of them")


def _lines(file: Path | None, key: bytes, keyed: bool) -> Iterator[Events]:
    if file is not None:
        try:
            with file.open("rb") as opened:
                yield from _events(opened, key, keyed)
        except OSError as error:
            from epicast.core import ConfigError

            raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
        return
    if sys.stdin.isatty():
        say("Publishing what you type, line by line; Ctrl-D ends.")
    yield from _events(sys.stdin.buffer, key, keyed)


def _events(source: BinaryIO, key: bytes, keyed: bool) -> Iterator[Events]:
    """As many lines at a time as are there: a pipe is not waited for."""
    read = getattr(source, "read1", source.read)
    rest = b""
    while some := read(_READ_BYTES):
        *lines, rest = (rest + some).split(b"\n")
        if lines:
            yield _event_columns(lines, key, keyed)
    if rest:
        yield _event_columns([rest], key, keyed)


def _event_columns(lines: list[bytes], key: bytes, keyed: bool) -> Events:
    if not keyed:
        return lines, [key] * len(lines) if key else None
    parts = [line.partition(b"\t") for line in lines]
    for line, (_, tab, _) in zip(lines, parts, strict=True):
        if not tab:
            from epicast.core import ConfigError

            raise ConfigError(f"no tab in {line[:40]!r}: --keyed lines are a key, a tab, a value")
    return [value for _, _, value in parts], [own for own, _, _ in parts]


def _make_up(
    outcome: _Outcome, count: int, rate: float | None, value: bytes, key: bytes, keys: int
) -> None:
    from random import Random

    from epicast.cli.progress import Progress

    rng = Random()
    names = [f"key-{number}".encode() for number in range(keys)] or ([key] if key else [])
    batch = _BATCH if rate is None else max(1, min(_BATCH, int(rate / _BATCHES_PER_S)))
    began = time.monotonic()
    with Progress("publishing") as progress:
        progress.begin(-(-count // batch))
        for start in range(0, count, batch):
            rows = min(batch, count - start)
            if rate is not None:
                time.sleep(max(0.0, began + start / rate - time.monotonic()))
            outcome.publish(([value] * rows, rng.choices(names, k=rows) if names else None))
            progress.advance()
