"""`epicast subscribe`: the events of a stream, as lines."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.connecting import (
    DEFAULT_ADDRESS,
    CaOption,
    CertificateOption,
    EvidenceOption,
    FromOption,
    KeyOption,
    StreamArgument,
    TokenFileOption,
    proof,
)
from epicast.cli.output import bytes_field, write_lines

if TYPE_CHECKING:
    from epicast.client import Item, Reset, Watermark
    from epicast.client.sync import Stream, Subscription
    from epicast.core import EventBatch

_MOST_AT_A_TIME = 1000


def register(app: typer.Typer) -> None:
    app.command("subscribe")(subscribe)


def subscribe(
    stream: StreamArgument,
    after: Annotated[
        int | None,
        typer.Option(
            min=0, help="Begin behind this number.", show_default="the newest event there is"
        ),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the oldest event there is.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on where the last run with this file ended; created if need be."),
    ] = None,
    from_lake: Annotated[
        Path | None,
        typer.Option(
            metavar="LAKE",
            help="Begin with the current value of every key in a lake; go on from there.",
        ),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many events.")] = None,
    follow: Annotated[
        bool, typer.Option(" /--no-follow", help="End with the newest event there is now.")
    ] = True,
    batches: Annotated[
        bool, typer.Option("--batches", help="One line per batch, saying what is in it.")
    ] = False,
    agent: Annotated[
        bool,
        typer.Option(
            "--agent", help="Take part in spreading events, instead of only asking the proxy."
        ),
    ] = False,
    evidence: EvidenceOption = None,
    source: FromOption = DEFAULT_ADDRESS,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
    certificate: CertificateOption = None,
    key_file: KeyOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print the events of a stream as they come, in order, until Ctrl-C.

    A line is the event's number, its key and its value, separated by tabs. What was
    garbage-collected before it could be printed is a line that begins with #; so is anything else
    that is not an event.

      epicast subscribe prices --from-start --no-follow

      epicast subscribe invalidations --resume seen.json --json

    With --resume every event behind the place where the first run began is printed at least once,
    whatever happens: the file is written before the first event, every second, and at the end.
    """
    if sum((after is not None, from_start, from_lake is not None)) > 1:
        raise typer.BadParameter("only one of --after, --from-start and --from-lake")
    if from_lake is not None and (resume is not None or batches or count is not None):
        raise typer.BadParameter("--from-lake goes with none of --resume, --batches and --count")
    from epicast.client import WatermarkFile, sync

    saved = WatermarkFile(resume) if resume is not None else None
    printer = _Printer(as_json)
    given = proof(source, token_file, ca, certificate, key_file)
    with sync.connect(source, agent=agent, evidence=evidence, **given) as node:
        opened = node.stream(stream)
        begin: Watermark | int | None = 0 if from_start else after
        if from_lake is not None:
            begin = _print_lake(from_lake, stream, opened.info.id, printer)
        head = None if follow else opened.head()
        subscription = opened.subscribe(begin, resume=saved)
        with subscription:
            if head is not None and (not head.seq or subscription.watermark >= head):
                return
            try:
                if batches:
                    _print_batches(subscription, printer, count, head)
                else:
                    _print_items(subscription, printer, count, head, opened)
                    # Asking for more is what says that everything before was dealt with.
                    subscription.pull(1, timeout=0)
            except BrokenPipeError:
                # Whoever read this has enough. Python would complain once more when it exits.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_lake(folder: Path, stream: str, stream_id: int, printer: _Printer) -> Watermark:
    """Print the values there are; the place they are as of."""
    from epicast.core import Event
    from epicast.pipeline.lake import bootstrap

    snapshot = bootstrap.read(folder, stream)
    printer.snapshot(*snapshot.watermark, snapshot.values.num_rows)
    for batch in snapshot.batches(_MOST_AT_A_TIME):
        columns = batch.set_column(3, "time", batch["time"].cast("int64"))
        printer.items(
            [
                Event(stream_id, row["seq"], row["key"], row["payload"], 1000 * row["time"])
                for row in columns.to_pylist()
            ]
        )
    return snapshot.watermark


def _print_items(
    subscription: Subscription,
    printer: _Printer,
    count: int | None,
    head: Watermark | None,
    stream: Stream,
) -> None:
    from epicast.client import Reset, Tombstone

    left = count
    while left is None or left > 0:
        items = subscription.pull(_MOST_AT_A_TIME if left is None else min(left, _MOST_AT_A_TIME))
        printer.items(items)
        if left is not None:
            left -= sum(not isinstance(item, (Reset, Tombstone)) for item in items)
        if head is not None:
            last = items[-1]
            if isinstance(last, Reset):
                head = stream.head()
                seq = last.watermark.seq
            else:
                seq = last.last if isinstance(last, Tombstone) else last.seq
            if seq >= head.seq:
                return


def _print_batches(
    subscription: Subscription, printer: _Printer, count: int | None, head: Watermark | None
) -> None:
    from epicast.client import Reset

    events = 0
    for batch in subscription.batches():
        printer.batch(batch)
        if isinstance(batch, Reset):
            continue
        events += batch.rows
        if (count is not None and events >= count) or (head is not None and batch.last >= head.seq):
            return


class _Printer:
    """Writes what came at a time as a whole."""

    def __init__(self, as_json: bool) -> None:
        from msgspec.json import Encoder

        self._encode = Encoder().encode if as_json else None

    def items(self, items: list[Item]) -> None:
        if self._encode is not None:
            encode = self._encode
            write_lines(b"".join(encode(_described(item)) + b"\n" for item in items))
        else:
            write_lines(b"".join(map(_line, items)))

    def snapshot(self, epoch: int, seq: int, keys: int) -> None:
        if self._encode is not None:
            fields = {"kind": "snapshot", "epoch": epoch, "seq": seq, "keys": keys}
            write_lines(self._encode(fields) + b"\n")
        else:
            write_lines(b"# %d keys as of %d:%d, from the lake\n" % (keys, epoch, seq))

    def batch(self, batch: EventBatch | Reset) -> None:
        from epicast.core import EventBatch

        if not isinstance(batch, EventBatch):
            self.items([batch])
            return
        fields = {
            "epoch": batch.epoch,
            "first": batch.first,
            "last": batch.last,
            "events": batch.rows,
            "collected": batch.tombstones,
            "bytes": batch.payload_bytes,
        }
        if self._encode is not None:
            write_lines(self._encode(fields) + b"\n")
        else:
            text = "\t".join(f"{name} {value}" for name, value in fields.items())
            write_lines(text.encode() + b"\n")


def _described(item: Item) -> dict[str, Any]:
    from epicast.client import Reset, Tombstone

    if isinstance(item, Tombstone):
        return {"kind": "tombstone", "first": item.first, "last": item.last}
    if isinstance(item, Reset):
        return {"kind": "reset", "epoch": item.watermark.epoch, "after": item.watermark.seq}
    described: dict[str, Any] = {"kind": "data", "seq": item.seq, "time_ns": item.time}
    described |= bytes_field("key", item.key)
    payload = item.payload
    if item.kind:
        from epicast.log import describe, split_gc_payload

        predicate, payload = split_gc_payload(payload)
        described |= {"kind": "gc", "collects": describe(predicate)}
    return described | bytes_field("value", payload)


def _line(item: Item) -> bytes:
    from epicast.core import Event

    if isinstance(item, Event) and not item.kind:
        return b"%d\t%s\t%s\n" % (item.seq, item.key, item.payload)
    fields = _described(item)
    match fields.pop("kind"):
        case "tombstone":
            text = f"# {item.first}..{item.last} collected"  # type: ignore[union-attr]
        case "reset":
            text = f"# the stream goes on behind {fields['after']} of epoch {fields['epoch']}"
        case _:
            text = f"# {fields['seq']} collects {fields['collects']}"
    return text.encode() + b"\n"
