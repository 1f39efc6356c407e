"""From a live geoplex into a lake whose driver is killed, and an audit of all of it in the end."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from epicast import EventBatch, sync
from epicast.deployment import parse_geoplex
from epicast.geo.local import LocalGeoplex
from epicast.pipeline.audit import Rules, audit_logs
from epicast.pipeline.lake.layout import Lake
from tests.pipeline.lake_runs import Run
from tests.pipeline.lake_support import plain_rows, uncovered_or_twice

EVENTS = 6000
BATCH = 50
DOCUMENT = """
name = "whole"
[regions.us]
proxy = "127.0.0.1:1"
data = "{folder}/us"
[regions.eu]
proxy = "127.0.0.1:2"
data = "{folder}/eu"
[streams.prices]
owner = "us"
latest_per_key = true
[streams.news]
owner = "eu"
[evidence]
folder = "{folder}/evidence"
"""
STREAMS = ("prices", "news")


def publish(address: str, evidence: Path, stream: str) -> None:
    with sync.connect(address, agent=False, evidence=evidence, name=f"{stream}-writer") as node:
        opened = node.stream(stream)
        for low in range(0, EVENTS, BATCH):
            numbers = range(low + 1, low + BATCH + 1)
            keys = [b"key %d" % (number % 97) for number in numbers]
            opened.publish_many([b"%d" % number for number in numbers], keys)


def follow(address: str, evidence: Path, name: str) -> None:
    with sync.connect(address, agent=True, evidence=evidence, name=name) as node:
        for stream in STREAMS:
            with node.stream(stream).subscribe(after=0) as subscription:
                last = 0
                while last < EVENTS:
                    batch = subscription.next_batch(60)
                    assert isinstance(batch, EventBatch)
                    last = batch.last


def test_live_stream_lake_killed_driver_audit(spark: Any, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    geoplex = parse_geoplex(DOCUMENT.format(folder=tmp_path), "test.toml")
    with LocalGeoplex(geoplex, any_ports=True) as local:
        addresses = {region: local.address(region) for region in ("us", "eu")}
        run = Run(tmp_path / "lake", addresses["eu"])
        parts = [
            # One of the streams is published far from its owner.
            *(Thread(target=publish, args=(addresses["us"], evidence, s)) for s in STREAMS),
            *(Thread(target=follow, args=(a, evidence, r)) for r, a in addresses.items()),
        ]
        try:
            for part in parts:
                part.start()
            run.next("batch")
            run.kill_driver()
            assert "SIGKILL" in run.next("restarting")["error"]
            reached = dict.fromkeys(STREAMS, 0)
            for report in run.reports():
                if report["type"] == "batch":
                    marks = report["committed"]["watermarks"]
                    reached |= {stream: mark[1] for stream, mark in marks.items()}
                if all(last == EVENTS for last in reached.values()):
                    break
            assert run.interrupt() == 130
        finally:
            run.process.kill()
            run.process.communicate()
            for part in parts:
                part.join()

    lake = Lake.open(tmp_path / "lake")
    rows = plain_rows(lake)
    for stream in STREAMS:
        mine = rows.filter(pc.equal(rows["stream"], stream))
        spans = zip(mine["seq"].to_pylist(), mine["last"].to_pylist(), strict=True)
        assert uncovered_or_twice(spans, EVENTS) == []
    assert lake.read_bronze(spark).count() == rows.num_rows
    assert latest(rows) == {
        b"key %d" % key: b"%d" % max(n for n in range(EVENTS + 1) if n % 97 == key)
        for key in range(97)
    }

    found = audit_logs(evidence, spark=spark, rules=Rules(grace_ns=0))
    assert found.holds, (found.violations, found.truncated)
    counts = found.totals.counts
    assert found.events == counts.acked == len(STREAMS) * EVENTS
    assert counts.owed == 2 * len(STREAMS) * EVENTS == counts.delivered + counts.tombstoned


def latest(rows: pa.Table) -> dict[bytes, bytes]:
    """The prices, as whoever reads all of bronze in order knows them."""
    prices = rows.filter(pc.equal(rows["stream"], "prices")).sort_by("seq")
    events = prices.filter(pc.equal(prices["kind"], "event"))
    return dict(zip(events["key"].to_pylist(), events["payload"].to_pylist(), strict=True))
