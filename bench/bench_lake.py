"""From a live stream into the lake's Delta table, exactly once.

Events are 10-byte keys without a payload, acknowledged once on disk. The publisher, the proxy,
Spark and all it starts share the machine. `live` counts what is committed from the first batch on,
while a publisher keeps a steady pace that it takes up once the query runs; `backlog` what is
committed from the moment the query runs, with everything published before. Beside it a plain client
drains the same stream, and a plain process writes the same rows to Parquet without Spark. Then
driver and proxy are killed in turn, in mid-run.
"""

import shutil
import tempfile
import time
from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable

from bench.harness import Bar, Figure, Result
from bench.lake_parts import STREAM, Ingestion, one_region, publish, publisher, stop_publisher
from epicast import Watermark, sync
from epicast.geo.local import LocalGeoplex
from epicast.pipeline.lake.bronze_files import write_file
from epicast.pipeline.lake.layout import Lake
from epicast.pipeline.lake.ranges import Range, read_range
from epicast.pipeline.session import spark_session

LIVE_RATE = 800_000
KILL_RATE = 100_000


def run(quick: bool) -> Result:
    folder = Path(tempfile.mkdtemp(prefix="epicast-lake-"))
    figures: dict[str, Figure] = {}
    try:
        live = live_rate(folder / "live", 10.0 if quick else 60.0, figures)
        backlog = backlog_rate(folder / "backlog", 4_000_000 if quick else 40_000_000, figures)
        kills = 2 if quick else 10
        lost, twice = kill(folder / "kills", kills, figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Result(
        "lake",
        figures,
        [
            Bar("live_events_per_s", 5e5, "at least", live, "1/s"),
            Bar("backlog_events_per_s", 1e6, "at least", backlog, "1/s"),
            Bar("rows_lost", 0, "at most", lost),
            Bar("rows_twice", 0, "at most", twice),
        ],
    )


def live_rate(folder: Path, seconds: float, figures: dict[str, Figure]) -> float:
    with LocalGeoplex(one_region(folder / "data"), any_ports=True) as local:
        address = local.address("us")
        with Ingestion(folder / "lake", address, "--interval", "1") as ingestion:
            ingestion.wait("running")
            with publisher(address, LIVE_RATE) as publishing:
                batches = [next(ingestion.batches()), *ingestion.batches(seconds)]
                published = stop_publisher(publishing)
    (start, _), (end, newest) = batches[0], batches[-1]
    rows = sum(committed["rows"] for _, committed in batches[1:])
    figures["live_batches"] = len(batches)
    figures["live_pace_events_per_s"] = LIVE_RATE
    figures["live_behind_at_the_end"] = published - newest["watermarks"][STREAM][1]
    return rows / (end - start) if rows else 0.0


def backlog_rate(folder: Path, events: int, figures: dict[str, Figure]) -> float:
    with LocalGeoplex(one_region(folder / "data"), any_ports=True) as local:
        address = local.address("us")
        publish(address, events)
        figures["plain_client_events_per_s"] = round(plain_client(address, events))
        plain = plain_writer(address, events, folder)
        figures["plain_writer_events_per_s"] = round(plain)
        with Ingestion(folder / "lake", address, "--once") as ingestion:
            running, rows, moment, first = 0.0, 0, 0.0, 0.0
            for moment, report in ingestion.reports():
                if report["type"] == "running":
                    running = moment
                elif report["type"] == "batch":
                    first = first or moment
                    rows += report["committed"]["rows"]
    if rows != events:
        raise AssertionError(f"{rows} rows of {events} events")
    rate = rows / (moment - running)
    figures["backlog_first_batch_s"] = round(first - running, 2)
    figures["backlog_vs_plain_client"] = round(
        rate / float(figures["plain_client_events_per_s"]), 3
    )
    figures["backlog_vs_plain_writer"] = round(rate / plain, 3)
    return rate


def plain_client(address: str, events: int) -> float:
    with sync.connect(address, agent=False) as node:
        start = time.perf_counter()
        for batch in node.stream(STREAM).subscribe(0).batches():
            if batch.last >= events:
                break
        return events / (time.perf_counter() - start)


def plain_writer(address: str, events: int, folder: Path) -> float:
    """One process that does what all tasks do: no Spark, no commit, nothing done again."""
    with sync.connect(address, agent=False) as node:
        stream = node.stream(STREAM)
        wanted = Range(STREAM, Watermark(0, 0), stream.head())
        start = time.perf_counter()
        batches = read_range(stream.subscribe(0), wanted, 60.0)
        rows, *_ = write_file(folder, "plain.parquet", batches)
        assert rows == events
        return events / (time.perf_counter() - start)


def kill(folder: Path, kills: int, figures: dict[str, Figure]) -> tuple[int, int]:
    """Driver and proxy by turns, each after a batch that came since the last; rows lost, twice."""
    with LocalGeoplex(one_region(folder / "data"), any_ports=True) as local:
        address = local.address("us")
        start = time.perf_counter()
        with (
            publisher(address, KILL_RATE) as publishing,
            Ingestion(folder / "lake", address, "--interval", "0.5") as ingestion,
        ):
            for number in range(kills):
                next(ingestion.batches())
                if number % 2:
                    local.kill("us")
                    local.start("us")
                    ingestion.forget()
                else:
                    ingestion.kill_driver()
                    ingestion.wait("restarting")
            next(ingestion.batches())
            published = stop_publisher(publishing)
            for _, committed in ingestion.batches():
                if committed["watermarks"][STREAM][1] >= published:
                    break
        figures["kills"] = kills
        figures["kills_s"] = round(time.perf_counter() - start, 1)
    lake = Lake.open(folder / "lake")
    plain = DeltaTable(str(lake.bronze)).to_pyarrow_table(columns=["seq"])["seq"]
    with spark_session("local[*]") as spark:
        frame = lake.read_bronze(spark)
        by_spark = frame.count(), frame.select("seq").distinct().count()
    by_plain = len(plain), pc.count_distinct(plain).as_py()
    figures["kill_events"] = published
    counted = (by_spark, by_plain)
    return (
        max(published - distinct for _, distinct in counted),
        max(rows - distinct for rows, distinct in counted),
    )
