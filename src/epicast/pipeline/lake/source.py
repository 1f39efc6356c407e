"""Streams as Spark's own: `spark.readStream.format("epicast")`, and `spark.read` for what there is.

    from epicast.pipeline.lake.source import register
    register(spark)
    events = (
        spark.readStream.format("epicast")
        .option("proxy", "127.0.0.1:7400").option("streams", "prices,audit")
        .load()
    )

Rows are those of bronze. Options: proxy, streams; startingOffsets (earliest, latest, or JSON such
as {"prices": [0, 0]}); maxEventsPerTrigger; parts, the tasks of a batch; patience, the seconds to
wait for a proxy that is away before the query fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from epicast import Watermark
from epicast.pipeline.lake.columns import joined, rows_for_spark
from epicast.pipeline.lake.connections import (
    described,
    forget,
    heads_of,
    node_at,
    parse_proxies,
)
from epicast.pipeline.lake.errors import LakeOptionError
from epicast.pipeline.lake.ingestion_options import DEFAULT_PATIENCE_S
from epicast.pipeline.lake.offsets import Offsets, parse_starting
from epicast.pipeline.lake.ranges import Range, cut, read_range
from epicast.pipeline.lake.schema import BRONZE_SPARK

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from epicast.pipeline.lake.publishing_sink import PublishingWriter

_LEAST_EVENTS = 50_000
"""What is worth a task of its own."""
_WINDOW_BYTES = 16 << 20


class SourceOptions(Struct, frozen=True, kw_only=True):
    proxies: tuple[str, ...]
    streams: tuple[str, ...]
    starting: str = "earliest"
    max_events: int = 0
    """In one batch; 0 for no limit."""
    parts: int = 2
    patience_s: float = DEFAULT_PATIENCE_S

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Spark has made the names lower case."""
        names = tuple(name.strip() for name in options.get("streams", "").split(","))
        if not all(names) or len({*names}) != len(names):
            raise LakeOptionError("streams: name at least one stream, and none twice: a,b")
        return cls(
            proxies=parse_proxies(options.get("proxy", "")),
            streams=tuple(sorted(names)),
            starting=options.get("startingoffsets", "earliest"),
            max_events=_whole(options, "maxeventspertrigger", 0),
            parts=_whole(options, "parts", 2) or 1,
            patience_s=float(_whole(options, "patience", DEFAULT_PATIENCE_S)),
        )


def _whole(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not text.isdecimal():
        raise LakeOptionError(f"{name}: {text!r} is not a whole number")
    return int(text)


class RangePartition(InputPartition):
    def __init__(self, wanted: Range, part: int) -> None:
        self.wanted = wanted
        self.part = part


class EpicastDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "epicast"

    def schema(self) -> str:
        return BRONZE_SPARK

    def streamReader(self, schema: StructType) -> EventStreamReader:
        return EventStreamReader(SourceOptions.parse(self.options))

    def reader(self, schema: StructType) -> EventReader:
        return EventReader(SourceOptions.parse(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> PublishingWriter:
        """What is published stays: output modes that replace rows mean the same as append."""
        from epicast.pipeline.lake.publishing_sink import PublishingWriter

        return PublishingWriter(self.options, schema)


def register(spark: SparkSession) -> None:
    spark.dataSource.register(EpicastDataSource)


class EventReader(DataSourceReader):
    """What there is when the plan is made, from where `startingOffsets` says."""

    def __init__(self, options: SourceOptions) -> None:
        self._stream = EventStreamReader(options)

    def partitions(self) -> Sequence[InputPartition]:
        start = self._stream.initialOffset()
        return self._stream.partitions(start, self._stream.latestOffset(start, ReadAllAvailable()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._stream.read(partition)


class EventStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One lives in the planner of a query, for as long as that runs; copies of it read ranges."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._target: dict[str, Watermark] | None = None

    def initialOffset(self) -> dict[str, Any]:
        options = self.options
        geoplex, _ = described(options.proxies, options.streams, options.patience_s)
        places = parse_starting(options.starting, options.streams)
        if places is None:
            places = self._heads()
        return Offsets(geoplex, places).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = self._checked(start)
        end = begin.advanced(self._target if self._target is not None else self._heads())
        if isinstance(limit, ReadMaxRows):
            end = begin.limited(end, limit.max_rows)
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any]:
        geoplex, _ = described(self.options.proxies, self.options.streams, self.options.patience_s)
        return Offsets(geoplex, self._heads()).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.options.max_events
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._heads()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = self._checked(start).ranges_to(Offsets.from_json(end))
        pieces = cut(ranges, self.options.parts, _LEAST_EVENTS)
        return [RangePartition(piece, part) for part, piece in enumerate(pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        for batch in joined(self.batches_of(partition.wanted)):
            yield rows_for_spark(batch, partition.wanted.stream)

    def batches_of(self, wanted: Range) -> Iterator[Any]:
        options = self.options
        node = node_at(options.proxies, options.patience_s)
        stream = node.stream(wanted.stream)
        if not wanted.after.seq and stream.head(options.patience_s).epoch > wanted.end.epoch:
            return  # nobody would say so: a subscription from the beginning takes any epoch
        subscription = stream.subscribe(wanted.after, window_bytes=_WINDOW_BYTES)
        try:
            yield from read_range(subscription, wanted, options.patience_s)
        except BaseException:
            forget(options.proxies)
            raise
        subscription.close()

    def _heads(self) -> dict[str, Watermark]:
        return heads_of(self.options.proxies, self.options.streams, self.options.patience_s)

    def _checked(self, start: dict[str, Any]) -> Offsets:
        """Spark hands out whatever is in the checkpoint, whoever wrote it."""
        offsets = Offsets.from_json(start)
        node = node_at(self.options.proxies, self.options.patience_s)
        offsets.check(node.geoplex, self.options.streams)
        return offsets
