"""What a node makes of a history it has opened again, and of a newer epoch that reaches it.

The same rules for files, memory and simulated disks: whoever keeps histories uses these.
"""

from __future__ import annotations

from collections.abc import Sequence

from epicast.core import EventBatch
from epicast.core.effects import Write
from epicast.log.config import LogConfig
from epicast.log.history import History
from epicast.log.recovery import RecoveryReport


def write(history: History, writes: Sequence[Write]) -> None:
    """In order; what follows a failure is not done."""
    batches: list[EventBatch] = []
    for each in writes:
        if isinstance(each, EventBatch):
            batches.append(each)
            continue
        if batches:
            append(history, batches)
            batches = []
        if each.keeps:
            history.raise_epoch(each.epoch)
        else:
            history.reset(each.epoch, each.first)
    if batches:
        append(history, batches)


def append(history: History, batches: Sequence[EventBatch]) -> None:
    """All of it or nothing. A newer epoch begins with its first batch; nothing older is kept."""
    newest = max(batch.epoch for batch in batches)
    if newest > history.epoch:
        while batches[0].epoch < newest:
            batches = batches[1:]
        history.reset(newest, batches[0].first)
    history.append_many(batches)


def may_have_lost(found: RecoveryReport, config: LogConfig) -> bool:
    """Whether events that others may have seen can be missing."""
    if found.marked:
        return True
    if not found.segments or found.is_complete:
        return False
    if config.sync != "disk":
        return True
    # What was synced is gone if there was more when the history was closed, or if something lies
    # behind the damage; half a batch at the end was on its way to the disk when the power went.
    cut = found.truncation
    return (cut is not None and cut.in_the_midst) or found.closed_at is not None
