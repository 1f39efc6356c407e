"""From a geoplex into bronze: the query, and the commit of each of its batches.

Spark keeps the offsets and decides what a batch is; the table knows which batches it has. A batch
that Spark does again, because the driver died before Spark noted that it was done, is in the table
already or is not at all: then its files are written anew, and those of the first attempt are left
to the next compaction.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from epicast import Watermark
from epicast.pipeline.lake.bronze_files import STAGING, BronzeFilesSource
from epicast.pipeline.lake.driver_reports import Committed
from epicast.pipeline.lake.errors import TooLittleDisk, WrongLake
from epicast.pipeline.lake.ingestion_options import IngestionOptions
from epicast.pipeline.lake.layout import Lake
from epicast.pipeline.lake.tables import NewFile, write_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_NOTE = "epicast.json"


class CheckpointNote(Struct, frozen=True):
    """Lies beside Spark's checkpoint and says whose it is.

    Batches are numbered anew in a new checkpoint, but the table has seen numbers already:
    `first_batch` is added to them.
    """

    lake: str
    geoplex: str
    streams: tuple[str, ...]
    first_batch: int
    start: dict[str, Watermark]


def start_query(
    spark: SparkSession, lake: Lake, options: IngestionOptions, committer: Committer
) -> StreamingQuery:
    clear_staging(lake)
    spark.dataSource.register(BronzeFilesSource)
    ranges = (
        spark.readStream.format("epicast_bronze_files")
        .option("proxy", options.proxy)
        .option("streams", ",".join(lake.streams))
        .option("startingOffsets", msgspec.json.encode(committer.start).decode())
        .option("maxEventsPerTrigger", str(options.max_events))
        .option("parts", str(spark.sparkContext.defaultParallelism))
        .option("patience", str(options.patience_s))
        .option("folder", str(lake.bronze))
        .option("table", lake.table)
        .load()
    )
    writer = ranges.writeStream.foreachBatch(committer)
    writer = writer.option("checkpointLocation", str(lake.checkpoint))
    if options.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{options.interval_s} seconds").start()


class Committer:
    """Runs on the driver, once per batch."""

    def __init__(
        self, lake: Lake, options: IngestionOptions, report: Callable[[Committed], object]
    ) -> None:
        note = checkpoint_of(lake)
        self.start = note.start
        self.error: Exception | None = None
        """What a batch ended with. Spark gets only a short version of it: it matches what it is
        told against a pattern, and with a long text that exhausts its stack."""
        self._lake = lake
        self._table = lake.bronze_table()
        self._watermarks = self._table.watermarks()
        self._first_batch = note.first_batch
        self._min_free = options.min_free_mb << 20
        self._report = report

    def __call__(self, frame: DataFrame, number: int) -> None:
        try:
            self._take(frame, number)
        except Exception as error:
            self.error = error
            raise RuntimeError(type(error).__name__) from None

    def _take(self, frame: DataFrame, number: int) -> None:
        batch = self._first_batch + number
        if batch <= self._table.last_batch():
            return
        check_disk(self._lake.folder, self._min_free)
        began = time.monotonic()
        rows = [row.asDict() for row in frame.collect()]
        if not rows:
            return  # the first batch of a query, if there is nothing yet
        watermarks = dict(self._watermarks)
        for row in rows:
            end = Watermark(row["epoch"], row["seq"])
            watermarks[row["stream"]] = max(end, watermarks.get(row["stream"], end))
        files = [msgspec.convert(row, NewFile) for row in rows if row["rows"]]
        self._table.commit(batch, files, watermarks)
        self._watermarks = watermarks
        self._report(
            Committed(
                batch,
                sum(file.rows for file in files),
                sum(file.size for file in files),
                time.monotonic() - began,
                watermarks,
            )
        )


def check_disk(folder: Path, least: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < least:
        raise TooLittleDisk(
            f"{folder}: {free >> 20} MB are free, a batch begins with {least >> 20} MB or more: "
            "make room, or lower --min-free-mb"
        )


def checkpoint_of(lake: Lake) -> CheckpointNote:
    """The note beside the checkpoint; both are made if there is none. A checkpoint that was removed
    costs nothing: the table itself says where to go on."""
    path = lake.checkpoint / _NOTE
    streams = tuple(sorted(lake.streams))
    if not path.exists():
        if lake.checkpoint.exists() and any(lake.checkpoint.iterdir()):
            raise WrongLake(
                f"{lake.checkpoint} is not a checkpoint of this lake: remove it, and ingestion "
                "goes on where the table ends"
            )
        table = lake.bronze_table()
        start = {name: Watermark(0, 0) for name in streams} | table.watermarks()
        note = CheckpointNote(
            lake.document.app, lake.geoplex, streams, table.last_batch() + 1, start
        )
        lake.checkpoint.mkdir(parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(note))
        return note
    try:
        note = msgspec.json.decode(path.read_bytes(), type=CheckpointNote)
    except msgspec.MsgspecError as error:
        raise WrongLake(f"{path} cannot be read ({error}): remove {lake.checkpoint}") from error
    if (note.lake, note.geoplex, note.streams) != (lake.document.app, lake.geoplex, streams):
        raise WrongLake(
            f"{lake.checkpoint} is the checkpoint of another lake (of geoplex {note.geoplex!r}, "
            f"streams {', '.join(note.streams)}): remove it, and ingestion goes on where the table "
            "ends"
        )
    return note


def clear_staging(lake: Lake) -> None:
    """What attempts that were given up have left; nobody else is at work in this lake."""
    shutil.rmtree(lake.bronze / STAGING, ignore_errors=True)
