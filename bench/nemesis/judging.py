"""Logs of other systems for `epicast_checker`, so that all are judged by the same rules."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from epicast_checker import PublisherLog, SubscriberLog, hash_rows

STREAM = 1
EPOCH = 1
PUBLISHER = 1
STREAMS = {STREAM: ("events", "nothing")}
EVENT_BYTES = 16


def payloads(first: int, count: int) -> list[bytes]:
    """The publisher's events from number `first` on."""
    return [
        PUBLISHER.to_bytes(8, "little") + number.to_bytes(8, "little")
        for number in range(first, first + count)
    ]


class Sent:
    """A publisher's log."""

    def __init__(self, logs: Path) -> None:
        self._log = PublisherLog(logs, "publisher", STREAMS)

    def sending(self, first: int, events: Sequence[bytes]) -> None:
        self._log.sent(STREAM, PUBLISHER, first, time.time_ns(), _hashes(events))
        self._log.flush()

    def acked(self, first: int, events: Sequence[bytes], seq: int) -> None:
        where = (STREAM, PUBLISHER, first, time.time_ns(), _hashes(events))
        self._log.acked(*where, epoch=EPOCH, seq=seq)
        self._log.flush()

    def close(self) -> None:
        self._log.close()


class Received:
    """A subscriber's log."""

    def __init__(self, logs: Path, name: str) -> None:
        self._log = SubscriberLog(logs, name, STREAMS)
        self._log.opened(STREAM, EPOCH, 1, time.time_ns())
        self.last = 0
        self.events = 0

    def got(self, numbers: Sequence[int], events: Sequence[bytes]) -> None:
        """With their numbers in the stream, ascending."""
        if not events:
            return
        now, hashes = time.time_ns(), _hashes(events)
        breaks = np.flatnonzero(np.diff(np.array(numbers, dtype=np.int64)) != 1) + 1
        bounds = [0, *breaks.tolist(), len(events)]
        for low, high in pairwise(bounds):
            self._log.events(STREAM, EPOCH, numbers[low], now, hashes[low:high])
        self._log.flush()
        self.last = numbers[-1]
        self.events += len(events)

    def close(self) -> None:
        self._log.closed(STREAM, EPOCH, self.last, time.time_ns())
        self._log.close()


def _hashes(events: Sequence[bytes]) -> np.ndarray:
    joined = np.frombuffer(b"".join(events), dtype=np.uint8)
    return hash_rows(joined.reshape(len(events), EVENT_BYTES))
