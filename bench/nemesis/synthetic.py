"""Logs of a run that went well, of any size: what the checker takes for so many events.

python -m bench.nemesis.synthetic out/logs --events 1e7 --subscribers 18
/usr/bin/time -v python -m epicast_checker out/logs --quiet
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epicast_checker import PublisherLog, SubscriberLog, hash_rows

STREAMS = {1: ("orders", "nothing"), 2: ("prices", "latest_per_key")}
_AT_A_TIME = 100_000
_ROW = 1000
_MS = 1_000_000
_NO_KEYS = np.empty(0, dtype=np.uint64)


def write(folder: Path, events: int, subscribers: int, keys: int = 1_000_000) -> None:
    """Sent, acknowledged three milliseconds later, and delivered to everybody in between."""
    rng = np.random.default_rng(1)
    publisher = PublisherLog(folder, "publisher", STREAMS)
    readers = [
        SubscriberLog(folder, f"subscriber{number:03d}", STREAMS) for number in range(subscribers)
    ]
    heads = dict.fromkeys(STREAMS, 0)
    now = 0
    for reader in readers:
        for stream in STREAMS:
            reader.opened(stream, 1, 1, now)
    for begin in range(0, events, _AT_A_TIME):
        count = min(_AT_A_TIME, events - begin)
        stream = 1 + begin // _AT_A_TIME % 2
        contents = _hashed(np.arange(begin, begin + count))
        hashed = _hashed(rng.zipf(1.3, count) % keys) if stream == 2 else _NO_KEYS
        now += 10 * _MS
        for low in range(0, count, _ROW):
            row = (contents[low : low + _ROW], hashed[low : low + _ROW])
            first = heads[stream] + 1
            last = heads[stream] = heads[stream] + len(row[0])
            publisher.sent(stream, 7, first, now, *row)
            for reader in readers:
                reader.events(stream, 1, first, now + 2 * _MS, *row)
            publisher.acked(stream, 7, first, now + 3 * _MS, *row, epoch=1, seq=last)
    for reader in readers:
        for stream, head in heads.items():
            reader.closed(stream, 1, head, now + 10 * _MS)
        reader.close()
    publisher.close()


def _hashed(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    return hash_rows(numbers.astype("<u8").view(np.uint8).reshape(-1, 8))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=float, default=1e6)
    parser.add_argument("--subscribers", type=int, default=8)
    chosen = parser.parse_args()
    write(chosen.folder, int(chosen.events), chosen.subscribers)


if __name__ == "__main__":
    main()
