"""SQL over a lake: the views bronze, silver, gold and savings, as they are or as they were.

with_views(spark, lake)
spark.sql("SELECT stream, count(*) FROM silver GROUP BY stream").show()
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING

from msgspec import Struct

from epicast import Watermark
from epicast.pipeline.lake.errors import LakeError
from epicast.pipeline.lake.gold import read_minutes, savings, update_gold
from epicast.pipeline.lake.silver import read_silver, update_silver
from epicast.pipeline.lake.travel import State, state_at, state_at_time, state_in_version
from epicast.pipeline.lake.versions import TableBusy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from epicast.pipeline.lake.layout import Lake

_ATTEMPTS = 3
_PLACE = re.compile(r"(\d{1,18}):(\d{1,18})")


class QueryError(LakeError):
    """The question makes no sense here."""


class Moment(Struct, frozen=True):
    """What silver and bronze are to be read as of: one of these, or none for now."""

    place: Watermark | None = None
    time: datetime | None = None
    version: int | None = None

    @property
    def is_now(self) -> bool:
        return self.place is None and self.time is None and self.version is None


def parse_place(text: str) -> Watermark:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise QueryError(f"{text!r} is no place in a stream; write EPOCH:NUMBER, such as 0:1200")
    return Watermark(int(found[1]), int(found[2]))


def parse_time(text: str) -> datetime:
    """Without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise QueryError(f"{text!r} is no time; write it like 2026-01-31T12:00:00Z") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def check_streams(lake: Lake, names: list[str]) -> list[str]:
    """All there are if none is named."""
    unknown = [name for name in names if name not in lake.streams]
    if unknown:
        raise QueryError(
            f"the lake has no stream {unknown[0]!r}, only {', '.join(sorted(lake.streams))}"
        )
    return names or sorted(lake.streams)


def refresh(spark: SparkSession, lake: Lake) -> list[str]:
    """Have silver and gold as new as bronze; the streams that had news."""
    changed: set[str] = set()
    for update in (update_silver, update_gold):
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                changed.update(update(spark, lake))
                break
            except TableBusy:  # somebody else has done it, or some of it
                if attempt == _ATTEMPTS:
                    raise
    return sorted(changed)


def with_views(
    spark: SparkSession, lake: Lake, moment: Moment | None = None, streams: list[str] | None = None
) -> list[State]:
    """Make the views. With a moment, silver and bronze are what they were, of the streams named."""
    if moment is None or moment.is_now:
        lake.read_bronze(spark).createOrReplaceTempView("bronze")
        read_silver(spark, lake).createOrReplaceTempView("silver")
        states = []
    else:
        states = [_state(spark, lake, s, moment) for s in check_streams(lake, streams or [])]
        for name, frames in (
            ("bronze", [state.bronze for state in states]),
            ("silver", [state.values for state in states]),
        ):
            reduce(lambda a, b: a.unionByName(b), frames).createOrReplaceTempView(name)
    read_minutes(spark, lake).createOrReplaceTempView("gold")
    savings(spark, lake).createOrReplaceTempView("savings")
    return states


def _state(spark: SparkSession, lake: Lake, stream: str, moment: Moment) -> State:
    if moment.place is not None:
        return state_at(spark, lake, stream, moment.place)
    if moment.time is not None:
        return state_at_time(spark, lake, stream, moment.time)
    assert moment.version is not None
    return state_in_version(spark, lake, stream, moment.version)


def answer(spark: SparkSession, sql: str, limit: int) -> tuple[pa.Table, bool]:
    """The rows, at most `limit` unless that is 0, and whether there are more."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        frame = spark.sql(sql)
    except (AnalysisException, ParseException) as error:
        said = str(error).strip().partition("\n")[0]
        raise QueryError(f"Spark does not understand the query: {said}") from error
    rows = (frame.limit(limit + 1) if limit else frame).toArrow()
    return (rows.slice(0, limit), True) if limit and rows.num_rows > limit else (rows, False)
