"""What clients of Epicast publish and get, as logs of `epicast_checker` (`docs/checker.md`)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epicast.client import Reset
from epicast.core import EventBatch, EventKind
from epicast_checker import SubscriberLog, hash_bytes, hash_rows

Hashes = NDArray[np.uint64]
_NO_KEYS = np.empty(0, dtype=np.uint64)


def hashes_of(batch: EventBatch) -> tuple[Hashes, Hashes]:
    """Of contents (key and payload, one behind the other) and of keys; those of a batch without
    any key are empty."""
    lengths = batch.lengths
    if lengths is not None and batch.rows:
        rows = np.frombuffer(batch.data, np.uint8).reshape(batch.rows, lengths.row)
        keys = hash_rows(rows[:, : lengths.key]) if lengths.key else _NO_KEYS
        return hash_rows(rows), keys
    names, payloads = batch.keys(), batch.payloads()
    contents = hash_bytes([key + payload for key, payload in zip(names, payloads, strict=True)])
    hashed = np.zeros(batch.rows, dtype=np.uint64)
    keyed = [at for at, key in enumerate(names) if key]
    hashed[keyed] = hash_bytes([names[at] for at in keyed])
    return contents, hashed if keyed else _NO_KEYS


def record_item(log: SubscriberLog, stream: int, item: EventBatch | Reset, now: int) -> None:
    if isinstance(item, Reset):
        log.reset(stream, item.watermark.epoch, item.watermark.seq + 1, now)
        return
    batch, epoch = item, item.epoch
    contents, keys = hashes_of(batch)
    seqs = batch.seqs.astype(np.int64)
    collects = batch.kinds == EventKind.GC
    # Where rows are not consecutive, tombstones lie between them.
    breaks = np.flatnonzero((np.diff(seqs) != 1) | (np.diff(collects.astype(np.int8)) != 0)) + 1
    expected = batch.first
    bounds = [0, *breaks.tolist(), batch.rows] if batch.rows else []
    for low, high in pairwise(bounds):
        first, last = int(seqs[low]), int(seqs[high - 1])
        if first > expected:
            log.tombstones(stream, epoch, expected, first - 1, now)
        if collects[low]:
            log.gc_events(stream, epoch, first, last, now)
        else:
            log.events(stream, epoch, first, now, contents[low:high], keys[low:high])
        expected = last + 1
    if expected <= batch.last:
        log.tombstones(stream, epoch, expected, batch.last, now)
