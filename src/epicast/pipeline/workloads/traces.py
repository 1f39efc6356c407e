"""A trace of somebody else's as columns of a workload, lazily, with what is wrong with it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from epicast.pipeline.workloads.errors import WorkloadError
from epicast.pipeline.workloads.spec import LARGEST_SIZE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
OPS = {"update": 0, "insert": 1, "delete": 2}
_WHOLE = ("tinyint", "smallint", "int", "bigint")


class TraceColumns(Struct, frozen=True, kw_only=True):
    """Names of columns in the trace, and the unit of its times."""

    time: str = "time"
    key: str = "key"
    op: str | None = None
    size: str | None = None
    time_unit: str = "s"

    def named(self) -> list[str]:
        return [name for name in (self.time, self.key, self.op, self.size) if name is not None]


def check_trace(source: Path, columns: TraceColumns) -> list[str]:
    """Look at names and at the ends of files, not at rows; the names of all columns."""
    if columns.time_unit not in UNITS:
        raise WorkloadError(f"{columns.time_unit!r} is not a unit of time: s, ms, us or ns")
    names: list[str] = []
    for file in _files(source):
        names = _csv_header(file) if is_csv(file) else _parquet_names(file)
        absent = [repr(name) for name in columns.named() if name not in names]
        if absent:
            raise WorkloadError(
                f"{file} has no column {' and no '.join(absent)}; there are: {', '.join(names)}"
            )
    return names


def open_trace(spark: SparkSession, source: Path, columns: TraceColumns) -> DataFrame:
    """The named columns as they are, CSV as text, and `_place`, the order of the rows."""
    from pyspark.sql import functions as F

    names = check_trace(source, columns)
    if is_csv(source):
        schema = ", ".join(f"{_quoted(name)} string" for name in names)
        read = spark.read.csv(str(source), schema, header=True, quote='"', escape='"')
    else:
        read = spark.read.parquet(*map(str, _files(source)))
    found = [F.col(_quoted(name)) for name in dict.fromkeys(columns.named())]
    return read.select(*found, F.monotonically_increasing_id().alias("_place"))


def is_csv(source: Path) -> bool:
    return source.suffix.lower() == ".csv"


def typed(trace: DataFrame, columns: TraceColumns) -> tuple[DataFrame, bool]:
    """`time`, `key`, `op`, `size` and `place`, null where a value is no such thing; and whether
    keys were hashed, which those that are not all whole numbers are."""
    from pyspark.sql import functions as F

    kinds = dict(trace.dtypes)
    key = F.col(_quoted(columns.key))
    kind = kinds[columns.key]
    hashed = kind not in _WHOLE
    if kind == "string":
        other = F.expr(f"{_quoted(columns.key)} is not null and "
                       f"try_cast({_quoted(columns.key)} as bigint) is null")  # fmt: skip
        hashed = bool(trace.filter(other).limit(1).count())
    elif hashed and kind != "binary":
        raise WorkloadError(
            f"column {columns.key!r} has the type {kind}; keys are whole numbers, text or bytes"
        )
    if hashed:
        number = F.when(key.isNotNull(), F.xxhash64(key).bitwiseAND(F.lit((1 << 63) - 1)))
    else:
        number = F.expr(f"try_cast({_quoted(columns.key)} as bigint)")
    return trace.select(
        _time(columns, kinds[columns.time]).alias("time"),
        number.alias("key"),
        F.expr(_op(columns.op)).alias("op"),
        F.expr(_size(columns.size)).alias("size"),
        F.col("_place").alias("place"),
    ), hashed  # fmt: skip


def first_problem(trace: DataFrame, rows: DataFrame, columns: TraceColumns) -> str | None:
    """The first row with a value that is not what its column should hold, in words."""
    from pyspark.sql import functions as F

    names = {"time": columns.time, "key": columns.key, "op": columns.op, "size": columns.size}
    wanted = {
        "time": "a time",
        "key": "a key",
        "op": "update, insert or delete",
        "size": f"a number of bytes up to {LARGEST_SIZE}",
    }
    bad = " or ".join(f"{name} is null" for name in names)
    worst = rows.filter(bad).orderBy("place").limit(1).collect()
    if not worst:
        return None
    place = int(worst[0]["place"])
    column = next(name for name in names if worst[0][name] is None)
    theirs = names[column]
    value = trace.filter(F.col("_place") == place).select(_quoted(theirs or "")).collect()[0][0]
    shown = "is empty" if value is None else f"is {str(value)[:60]!r}"
    row = _row_number(rows, place)
    return f"row {row:,}, column {theirs!r} {shown}, which is not {wanted[column]}"


def _row_number(rows: DataFrame, place: int) -> int:
    """From 1. A place is the partition and the number within it."""
    from pyspark.sql import functions as F

    partition, within = place >> 33, place & ((1 << 33) - 1)
    before = rows.filter(F.shiftright("place", 33) < partition).count()
    return before + within + 1


def _time(columns: TraceColumns, kind: str) -> Column:
    from pyspark.sql import functions as F

    name = _quoted(columns.time)
    if kind.startswith("timestamp"):
        return F.expr(f"unix_micros(cast({name} as timestamp)) * 1000")
    scale = UNITS[columns.time_unit]
    exact = f"try_cast({name} as decimal(28,9)) * cast({scale} as decimal(10,0))"
    return F.expr(f"try_cast(round({exact}) as bigint)")


def _op(name: str | None) -> str:
    if name is None:
        return "cast(0 as tinyint)"
    cases = " ".join(
        f"when '{word}' then {code} when '{word[0]}' then {code} when '{code}' then {code}"
        for word, code in OPS.items()
    )
    return f"cast(case lower(trim(cast({_quoted(name)} as string))) {cases} end as tinyint)"


def _size(name: str | None) -> str:
    if name is None:
        return "cast(0 as int)"
    number = f"try_cast({_quoted(name)} as int)"
    return f"if({number} between 0 and {LARGEST_SIZE}, {number}, null)"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _files(source: Path) -> list[Path]:
    if not source.exists():
        raise WorkloadError(f"there is no {source}")
    if source.is_dir():
        files = sorted(source.glob("*.parquet"))
        if not files:
            raise WorkloadError(f"{source} is a directory without any Parquet file")
        return files
    if source.suffix.lower() not in (".csv", ".parquet"):
        raise WorkloadError(f"{source} is neither .csv nor .parquet, nor a directory of the latter")
    return [source]


def _csv_header(source: Path) -> list[str]:
    try:
        with source.open(newline="", encoding="utf-8-sig") as opened:
            names = next(csv.reader(opened), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise WorkloadError(f"{source}: cannot be read as CSV in UTF-8: {error}") from None
    if not names:
        raise WorkloadError(f"{source} is empty: there is not even a line with names of columns")
    if len(set(names)) < len(names):
        raise WorkloadError(f"{source}: two columns have the same name: {', '.join(names)}")
    return names


def _parquet_names(file: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            return list(opened.schema_arrow.names)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise WorkloadError(f"{file} is damaged, or was not written to its end: {reason}") from None
