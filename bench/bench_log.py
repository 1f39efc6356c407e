"""Append, sync, recovery and compaction of a history on disk, beside a plain write of its bytes.

Events are 10-byte keys out of 100,000, `latest_per_key` collects them, batches have 1,000 events,
checksums are on. Appending and plain writing take turns, a slice of the whole each; every slice
ends with everything on disk, so that neither leaves its work to the other. Both go on while what
they wrote is being synced in another thread, again as soon as the last sync is done: that is what
a group commit does.

The bar is with the index of keys, which is most of the work per event; what the log takes by itself
is `append_without_gc_vs_plain_write`.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from bench.harness import Bar, Figure, Rates, Result
from bench.streams import STREAM, KeyedStream
from epicast.core import EventBatch
from epicast.log import DiskDirectory, GcPolicy, History, LogConfig
from epicast.log.records import framed_batches

KEYS = 100_000
ROWS = 1_000
GATHER = 100
"""Batches made before the clock runs."""
COMMIT = 20
"""Batches appended together."""
POLICY = GcPolicy(latest_per_key=True)
Sync = Literal["memory", "interval", "disk"]


def run(quick: bool) -> Result:
    events, slices = (1_000_000, 2) if quick else (100_000_000, 10)
    folder = Path(tempfile.mkdtemp(prefix="epicast-bench-"))
    try:
        warm_up(folder / "warm")
        figures, bars = measure(folder, events, slices)
        few = events // 20
        for sync in ("memory", "interval", "disk"):
            rate = append_rate(folder / sync, few, sync)  # type: ignore[arg-type]
            figures[f"append_{sync}_events_per_s"] = round(rate)
        figures["append_without_gc_events_per_s"] = round(
            append_rate(folder / "plain", few, "memory", GcPolicy())
        )
        figures["sync_one_event_ms"] = round(1000 * seconds_per_sync(folder / "syncs"), 3)
        return Result("log", figures, bars)
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, events: int, slices: int) -> tuple[dict[str, Figure], list[Bar]]:
    config = LogConfig(sync="memory")
    history = History(DiskDirectory(folder / "log"), STREAM, policy=POLICY, config=config)
    appending, writing = compare(history, folder / "plain", events, slices)
    statistics = history.statistics()
    size, live = statistics.stored_bytes, statistics.live_events
    history.close()
    simple = History(DiskDirectory(folder / "no-gc"), STREAM, config=config)
    alone, beside = compare(simple, folder / "plain", events // 5, slices)
    simple.close()
    shutil.rmtree(folder / "no-gc")
    ratio = appending.over(writing)
    figures: dict[str, Figure] = {
        "events": events,
        "stored_bytes": size,
        "append_and_sync_events_per_s": round(appending.median),
        "plain_write_events_per_s": round(writing.median),
        "append_without_gc_vs_plain_write": round(alone.over(beside), 3),
    }

    seconds = {}
    for state in ("warm", "cold"):
        if state == "cold":
            forget_cached(folder / "log")
        start = time.perf_counter()
        history = History(DiskDirectory(folder / "log"), STREAM, policy=POLICY, config=config)
        seconds[state] = time.perf_counter() - start
        if history.end != events or history.statistics().live_events != live:
            raise AssertionError(f"recovery came to {history.end} of {events} events")
        if state == "warm":
            history.close()
    figures["recovery_warm_cache_s"] = round(seconds["warm"], 3)
    figures["recovery_cold_cache_s"] = round(seconds["cold"], 3)

    start = time.perf_counter()
    while history.compact():
        pass
    elapsed = time.perf_counter() - start
    after = history.statistics()
    figures["compaction_events_per_s"] = round(events / elapsed)
    figures["compacted_bytes"] = after.stored_bytes
    history.close()
    return figures, [
        Bar("append_vs_plain_write", 0.5, "at least", ratio, "x"),
        Bar("recovery_s", 10.0, "at most", max(seconds.values()), "s"),
    ]


def compare(history: History, plain: Path, events: int, slices: int) -> tuple[Rates, Rates]:
    """Events per second appended to a history, and written to a plain file, by turns."""
    source = KeyedStream(KEYS, ROWS)
    appending, writing = [], []
    with open(plain, "wb", buffering=0) as file:
        for _ in range(slices):
            part = list(groups(source, history.end + 1, events // slices))
            batches = [batch for group in part for batch in group]
            blobs = [
                framed_batches(batches[low : low + COMMIT])
                for low in range(0, len(batches), COMMIT)
            ]
            writing.append(events / slices / plain_write(file.fileno(), blobs))
            appending.append(events / slices / append(history, part))
    os.unlink(plain)
    return Rates(tuple(appending)), Rates(tuple(writing))


def groups(source: KeyedStream, first: int, events: int) -> Iterator[list[EventBatch]]:
    for at in range(0, events, ROWS * GATHER):
        yield source.batches(first + at, min(ROWS * GATHER, events - at))


def append(history: History, part: list[list[EventBatch]]) -> float:
    """Seconds until all of it is on disk."""
    start = time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        ticket = history.begin_sync()
        syncing = pool.submit(ticket.run)
        for group in part:
            for low in range(0, len(group), COMMIT):
                history.append_many(group[low : low + COMMIT])
                if syncing.done():
                    syncing.result()
                    history.finish_sync(ticket)
                    ticket = history.begin_sync()
                    syncing = pool.submit(ticket.run)
        syncing.result()
        history.finish_sync(ticket)
        history.sync()
    return time.perf_counter() - start


def plain_write(descriptor: int, blobs: list[bytes]) -> float:
    start = time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        syncing = pool.submit(os.fdatasync, descriptor)
        for blob in blobs:
            os.write(descriptor, blob)
            if syncing.done():
                syncing.result()
                syncing = pool.submit(os.fdatasync, descriptor)
        syncing.result()
        os.fdatasync(descriptor)
    return time.perf_counter() - start


def append_rate(path: Path, events: int, sync: Sync, policy: GcPolicy = POLICY) -> float:
    """Events per second under a sync policy, a group of batches per commit, compaction included."""
    history = History(DiskDirectory(path), STREAM, policy=policy, config=LogConfig(sync=sync))
    elapsed = 0.0
    for group in groups(KeyedStream(KEYS, ROWS), 1, events):
        start = time.perf_counter()
        history.append_many(group)
        if sync == "disk":
            history.sync()
        history.maintain(time.monotonic_ns())
        elapsed += time.perf_counter() - start
    history.close()
    shutil.rmtree(path)
    return events / elapsed


def seconds_per_sync(path: Path) -> float:
    history = History(DiskDirectory(path), STREAM)
    count = 50
    start = time.perf_counter()
    for seq in range(1, count + 1):
        history.append(EventBatch.build(STREAM, seq, [b"payload"]))
        history.sync()
    elapsed = time.perf_counter() - start
    history.close()
    return elapsed / count


def forget_cached(path: Path) -> None:
    """Ask the system to read the files from disk again."""
    for file in path.glob("*.seg"):
        with open(file, "rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm_up(path: Path) -> None:
    """Have everything compiled."""
    config = LogConfig(segment_bytes=1 << 20, sync="memory")
    for _ in range(2):
        history = History(DiskDirectory(path), STREAM, policy=POLICY, config=config)
        for batch in KeyedStream(100, ROWS, variety=10).batches(history.end + 1, 100_000):
            history.append(batch)
        while history.compact():
            pass
        history.read(1, 1 << 20)
        history.close()
