"""Processes that read a stream in one way each, with default arguments, and note what they got.

Each line of the log is `open SEQ`, written when a subscription is open, or `got SEQ`.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import epicast
from epicast import cli, sync
from epicast.core import EventBatch

Note = Callable[[str, int], object]


def read(way: str, address: str, folder: Path, stream: str) -> None:
    """Be such a process, until it is killed or gets an event whose payload is END."""
    log = os.open(folder / f"{way}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    def note(what: str, seq: int) -> None:
        os.write(log, b"%s %d\n" % (what.encode(), seq))

    path = folder / f"{way}.json"
    if way in ASYNC:
        epicast.run(_read(ASYNC[way], address, path, stream, note))
    elif way in SYNC:
        with sync.connect(address, agent=False) as node:
            subscribed = node.stream(stream).subscribe(resume=epicast.WatermarkFile(path))
            note("open", subscribed.watermark.seq)
            SYNC[way](subscribed, note)
    else:
        _run_command(address, path, stream, note, log)


async def _read(reader: Any, address: str, path: Path, stream: str, note: Note) -> None:
    async with epicast.connect(address, agent=False) as node:
        subscribed = node.stream(stream).subscribe(resume=epicast.WatermarkFile(path))
        note("open", subscribed.watermark.seq)
        await reader(subscribed, note)


def _take(item: Any, note: Note) -> bool:
    """Note what was handed out; whether it was the end."""
    if isinstance(item, EventBatch):
        return any([_take(event, note) for event in item.events()])
    note("got", item.seq)
    return bool(item.payload == b"END")


async def _loop(subscribed: epicast.Subscription, note: Note) -> None:
    async for item in subscribed:
        if _take(item, note):
            return


async def _busy_loop(subscribed: epicast.Subscription, note: Note) -> None:
    async for item in subscribed:
        if _take(item, note):
            return
        time.sleep(0.001)  # what many applications do all the same


async def _get(subscribed: epicast.Subscription, note: Note) -> None:
    while not _take(await subscribed.get(), note):
        pass


async def _get_nowait(subscribed: epicast.Subscription, note: Note) -> None:
    while True:
        item = subscribed.get_nowait()
        if item is None:
            item = await subscribed.get()
        if _take(item, note):
            return


async def _pull(subscribed: epicast.Subscription, note: Note) -> None:
    while not any([_take(item, note) for item in await subscribed.pull(10)]):
        pass


async def _batches(subscribed: epicast.Subscription, note: Note) -> None:
    async for whole in subscribed.batches():
        if _take(whole, note):
            return


def _sync_loop(subscribed: sync.Subscription, note: Note) -> None:
    for item in subscribed:
        if _take(item, note):
            return


def _sync_get(subscribed: sync.Subscription, note: Note) -> None:
    while not _take(subscribed.get_nowait() or subscribed.get(), note):
        pass


def _sync_pull(subscribed: sync.Subscription, note: Note) -> None:
    while not any([_take(item, note) for item in subscribed.pull(10)]):
        pass


def _sync_batches(subscribed: sync.Subscription, note: Note) -> None:
    for whole in subscribed.batches():
        if _take(whole, note):
            return


def _run_command(address: str, path: Path, stream: str, note: Note, log: int) -> None:
    """`epicast subscribe`, whose lines are made those of the log."""
    opening = sync.Stream.subscribe

    def subscribe(*arguments: Any, **options: Any) -> sync.Subscription:
        subscribed = opening(*arguments, **options)
        note("open", subscribed.watermark.seq)
        return subscribed

    sync.Stream.subscribe = subscribe  # type: ignore[method-assign]
    os.dup2(log, sys.stdout.fileno())
    cli.main(["subscribe", stream, "--json", "--resume", str(path), "--from", address])


ASYNC = {
    "loop": _loop, "busy-loop": _busy_loop, "get": _get, "get-nowait": _get_nowait, "pull": _pull,
    "batches": _batches,
}  # fmt: skip
SYNC = {
    "sync-loop": _sync_loop, "sync-get": _sync_get, "sync-pull": _sync_pull,
    "sync-batches": _sync_batches,
}  # fmt: skip
COMMAND = "command"
WAYS = (*ASYNC, *SYNC, COMMAND)


def noted(folder: Path, way: str) -> list[tuple[str, int]]:
    """The log of all runs so far. A line that a killed process did not finish does not count."""
    path = folder / f"{way}.log"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [_entry(line) for line in lines]


def _entry(line: bytes) -> tuple[str, int]:
    if line.startswith(b"{"):
        return "got", json.loads(line)["seq"]
    what, seq = line.decode().split()
    return what, int(seq)
