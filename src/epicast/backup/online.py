"""A backup of a running geoplex, through any of its proxies: by subscribing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from epicast.backup.errors import BackupError
from epicast.backup.manifest import StreamEntry
from epicast.backup.writing import BackupFolder, StreamBackup
from epicast.client import Node, Stream, Watermark
from epicast.core import EventBatch

Advance = Callable[[str, int, int], object]
"""Told the stream, how far its backup is, and how far it has to get."""
_PATIENCE_S = 60.0


async def backup_running(
    node: Node,
    streams: Sequence[str],
    folder: Path,
    source: str,
    advance: Advance = lambda *_: None,
    patience_s: float = _PATIENCE_S,
) -> dict[str, StreamEntry]:
    """Add to the backup whatever is new; what it then has of each stream.

    Gives up if nothing comes for `patience_s`; what came until then need not come again.
    """
    backup = BackupFolder(folder, node.geoplex)
    found = {}
    for name in streams:
        stream = node.stream(name)
        with backup.open(stream.info) as copy:
            await _catch_up(stream, copy, advance, patience_s)
            found[name] = copy.finish(source)
        backup.keep(name, found[name])
    return found


async def _catch_up(
    stream: Stream, copy: StreamBackup, advance: Advance, patience_s: float
) -> None:
    """Take what there is, and then what must come with it.

    A tombstone stands for an event that a later one has collected, and that later one may be newer
    than the head was when we began. So it goes on until, between asking for the head and reaching
    it, no tombstone has come: then every collector is here as well.
    """
    async with stream.subscribe(after=Watermark(*copy.place)) as subscription:
        while True:
            target = await stream.head(patience_s)
            buried = False
            while copy.place < target:
                advance(stream.name, copy.place[1], target.seq)
                if target.seq == 0:
                    copy.restart(target.epoch, 0)  # a stream that has no events yet
                    break
                item = await subscription.next_batch(patience_s)
                if item is None:
                    raise BackupError(
                        f"{stream.name}: nothing came for {patience_s:g} s at {copy.place[1]} of "
                        f"{target.seq}; see `epicast status`, and run the backup again to go on"
                    )
                if isinstance(item, EventBatch):
                    copy.take(item)
                    buried |= item.tombstones > 0
                else:
                    copy.restart(*item.watermark)
                    if item.watermark.epoch > target.epoch:
                        target = await stream.head(patience_s)
            advance(stream.name, copy.place[1], target.seq)
            if not buried:
                return
