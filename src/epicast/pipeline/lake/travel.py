"""The values of all keys as they were: behind a place in the stream, at a time, or in a version.

    found = state_at(spark, lake, "prices", Watermark(0, 1200))
    found.values        # a DataFrame with the columns of silver

Compaction takes away what is collected, and with it the states from before. Such a state is read
from a version from before that compaction, as long as its files are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from epicast import Watermark
from epicast.pipeline.lake.bronze_versions import bronze_versions
from epicast.pipeline.lake.errors import LakeError
from epicast.pipeline.lake.schema import EVENT, GC
from epicast.pipeline.lake.silver import SILVER_SPARK, current_values, rules_since
from epicast.pipeline.lake.versions import Snapshot
from epicast.pipeline.lake.writing import partitions_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from epicast.pipeline.lake.layout import Lake

_BEFORE_ALL = Watermark(-1, 0)


class NoWayBack(LakeError):
    """What the state depends on is not in the lake: not yet, or not any more."""


@dataclass(frozen=True)
class State:
    values: DataFrame
    bronze: DataFrame
    """What the values follow from."""
    watermark: Watermark
    version: int
    """Of bronze, from which it was read."""


def state_at(spark: SparkSession, lake: Lake, stream: str, place: Watermark) -> State:
    """Behind a place in the stream."""

    def wanted(_: Snapshot) -> Watermark:
        return place

    return _first_that_will_do(spark, lake, stream, wanted)


def state_at_time(spark: SparkSession, lake: Lake, stream: str, time: datetime) -> State:
    """Behind the newest event that is not younger than that, by the clock of the stream's owner."""

    def wanted(snapshot: Snapshot) -> Watermark:
        rows = _rows(spark, lake, snapshot, stream)
        timed = rows.where(rows.kind.isin(EVENT, GC) & (rows.time <= time))
        newest = timed.select("epoch", "seq").orderBy("epoch", "seq", ascending=False).first()
        return _BEFORE_ALL if newest is None else Watermark(newest.epoch, newest.seq)

    return _first_that_will_do(spark, lake, stream, wanted)


def state_in_version(spark: SparkSession, lake: Lake, stream: str, version: int) -> State:
    """With all that was in a version of bronze."""
    snapshot = bronze_versions(lake).snapshot(version)
    if not all((snapshot.folder / file.path).exists() for file in snapshot.files):
        raise NoWayBack(f"the files of version {version} of {lake.bronze} were deleted")
    return _state(spark, lake, snapshot, stream, snapshot.watermarks.get(stream, Watermark(0, 0)))


def _first_that_will_do(
    spark: SparkSession, lake: Lake, stream: str, wanted: Callable[[Snapshot], Watermark]
) -> State:
    possible_from = _BEFORE_ALL
    for snapshot in bronze_versions(lake).ways_back():
        end = snapshot.watermarks.get(stream, Watermark(0, 0))
        place = wanted(snapshot)
        if place > end:
            raise NoWayBack(f"{place} of {stream!r} is not in the lake yet, which is at {end}")
        collected = snapshot.compacted.get(stream, _BEFORE_ALL)
        if place == collected == _BEFORE_ALL:
            raise NoWayBack(f"the lake has no event of {stream!r} that is as old as that")
        if collected <= place:
            return _state(spark, lake, snapshot, stream, place)
        possible_from = collected
    raise NoWayBack(
        f"what {stream!r} was then has been compacted away; from {possible_from} on it can be told "
        "(`epicast lake compact --keep-versions` keeps more)"
    )


def _state(
    spark: SparkSession, lake: Lake, snapshot: Snapshot, stream: str, place: Watermark
) -> State:
    rows = _rows(spark, lake, snapshot, stream)
    known = rows.where((rows.epoch == place.epoch) & (rows.seq <= place.seq))
    rules = rules_since(known, lake, {stream: place}, {})
    size = sum(file.size for file in snapshot.files if file.stream == stream)
    nothing = spark.createDataFrame([], SILVER_SPARK)
    values = current_values(nothing, known, rules, partitions_for(size))
    return State(values, known, place, snapshot.version)


def _rows(spark: SparkSession, lake: Lake, snapshot: Snapshot, stream: str) -> DataFrame:
    return lake.read_bronze(spark, snapshot.paths([stream]))
