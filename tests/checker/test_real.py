"""The checker on what real processes did, and what became of it on the way."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import epicast
from epicast.client import Stream, Subscription
from epicast.core import EventBatch, EventKind
from epicast.experiments.nemesis.recording import hashes_of, record_item
from epicast.geo.local import LocalGeoplex
from epicast.runtime import run
from epicast_checker import PublisherLog, SubscriberLog, check
from epicast_checker.format import Got
from epicast_checker.reading import find_logs, read
from tests.geo.support import make_geoplex

BATCHES, PER_BATCH = 30, 100


def batch_of(stream: int, publisher: int, turn: int, keys: int) -> EventBatch:
    numbers = range(turn * PER_BATCH + 1, (turn + 1) * PER_BATCH + 1)
    names = [b"key %03d" % (number % keys) for number in numbers] if keys else None
    payloads = [b"%08d %08d" % (publisher, number) for number in numbers]
    return EventBatch.build(stream, 1, payloads, keys=names)


async def publish_recorded(
    stream: Stream, log: PublisherLog, publisher: int, first: int, batch: EventBatch
) -> None:
    """Publish events that have the publisher's numbers from `first` on."""
    contents, keys = hashes_of(batch)
    where = (stream.info.id, publisher, first)
    log.sent(*where, time.time_ns(), contents, keys)
    log.flush()  # whatever happens to this process, it was sent
    seq = await stream.publish_many(batch)
    epoch = (await stream.head()).epoch
    log.acked(*where, time.time_ns(), contents, keys, epoch=epoch, seq=seq)
    log.flush()


async def record_until(
    subscription: Subscription, stream: int, log: SubscriberLog, end: int, patience_s: float
) -> bool:
    """Write down what comes until everything up to `end` has; False if it did not in time."""
    at = 0
    deadline = time.monotonic() + patience_s
    while at < end:
        item = await subscription.next_batch(max(0.0, deadline - time.monotonic()))
        if item is None:
            log.flush()
            return False
        record_item(log, stream, item, time.time_ns())
        at = item.last if isinstance(item, EventBatch) else item.watermark.seq
    log.flush()
    return True


@pytest.mark.timeout(240)
def test_an_owner_killed_under_load_loses_nothing(tmp_path: Path) -> None:
    geoplex = make_geoplex(("us", "eu"), tmp_path / "data")
    collects = {"orders": "nothing", "prices": "latest_per_key"}
    streams = {geoplex.stream(name).id: (name, how) for name, how in collects.items()}
    logs = tmp_path / "logs"
    underway = threading.Event()

    async def publish(address: str, publisher: int, name: str, keys: int) -> None:
        log = PublisherLog(logs, f"{publisher}-{name}", streams)
        async with epicast.connect(address, agent=False, publisher=publisher) as node:
            stream = node.stream(name)
            for turn in range(BATCHES):
                batch = batch_of(stream.info.id, publisher, turn, keys)
                first = turn * PER_BATCH + 1
                if turn == BATCHES // 3:
                    underway.set()
                await publish_recorded(stream, log, publisher, first, batch)
        log.close()

    async def subscribe(address: str, who: str, name: str, end: int) -> None:
        log = SubscriberLog(logs, f"{who}-{name}", streams)
        async with epicast.connect(address, agent=False) as node:
            stream = node.stream(name).info.id
            log.opened(stream, 0, 1, time.time_ns())
            subscription = node.stream(name).subscribe(after=0)
            assert await record_until(subscription, stream, log, end, 120.0)
            log.closed(stream, subscription.watermark.epoch, end, time.time_ns())
            await subscription.close()
        log.close()

    with LocalGeoplex(geoplex) as local:
        us, eu = local.address("us"), local.address("eu")

        def trouble() -> None:
            assert underway.wait(120)
            local.kill("us")  # owns `orders`, acknowledged once they are on disk
            local.start("us")

        async def scenario() -> None:
            end = 2 * BATCHES * PER_BATCH
            tasks = [
                *(publish(eu, number, "orders", 0) for number in (1, 2)),
                *(publish(eu, number, "prices", 20) for number in (3, 4)),
                *(subscribe(at, at[-4:], name, end) for at in (us, eu) for name in collects),
            ]
            await asyncio.gather(asyncio.to_thread(trouble), *tasks)

        run(scenario())
    report = check(logs)
    assert report.faults == 0, report
    assert [(each.sent, each.acked) for each in report.streams] == 2 * [(6000, 6000)]
    assert len(report.subscribers) == 4
    assert all(0 <= each.stalled_s < 120 for each in report.subscribers)
    # And a log from which something is taken away is noticed.
    victim = next(
        log for log in find_logs(logs) if log.role == "publisher" and "orders" in log.name
    )
    victim.path.unlink()
    report = check(logs)
    forged = {each.forged for each in report.subscribers if each.stream == "orders"}
    assert forged == {BATCHES * PER_BATCH}


def test_batches_with_holes_and_collectors_are_written_down_as_they_are(tmp_path: Path) -> None:
    log = SubscriberLog(tmp_path, "s", {7: ("prices", "latest_per_key")})
    batch = EventBatch.build(
        7, 10, [b"a", b"bb", b"gc", b"d"], keys=[b"k", b"", b"", b"k"], seqs=[12, 13, 14, 16],
        last=18, epoch=3,
        kinds=[EventKind.DATA, EventKind.DATA, EventKind.GC, EventKind.DATA],
    )  # fmt: skip
    record_item(log, 7, batch, 5)
    record_item(log, 7, EventBatch.build(7, 19, [], seqs=[], last=20, epoch=3), 5)
    even = EventBatch.build(7, 21, [b"xx", b"yy"], keys=[b"1", b"2"], epoch=3)
    record_item(log, 7, even, 5)
    log.close()
    (rows,) = read(find_logs(tmp_path)[0])
    found = [
        (Got(kind).name, first, last)
        for kind, first, last in zip(
            rows.kinds, rows.column("first").tolist(), rows.column("last").tolist(), strict=True
        )
    ]
    assert found == [
        ("TOMBSTONES", 10, 11), ("DATA", 12, 13), ("GC", 14, 14), ("TOMBSTONES", 15, 15),
        ("DATA", 16, 16), ("TOMBSTONES", 17, 18), ("TOMBSTONES", 19, 20), ("DATA", 21, 22),
    ]  # fmt: skip
    assert rows.keys.tolist()[1] == 0 and rows.keys[0] == rows.keys[2] != 0
    uneven = EventBatch.build(7, 1, [b"xx", b"longer"], keys=[b"1", b"2"])
    assert hashes_of(uneven)[0][0] == hashes_of(even)[0][0]
    assert np.array_equal(hashes_of(uneven)[1], hashes_of(even)[1])
