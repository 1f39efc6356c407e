"""Making a universe: chunks of users in tasks, which write their files themselves.

Everything happens beside the target, which appears once it is complete. On a cluster the directory
must be the same for all workers.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from epicast.experiments.files import replace_text
from epicast.pipeline.jobs import run_tasks
from epicast.pipeline.universes.grid import Edges, grid_edges, places_of
from epicast.pipeline.universes.spec import UniverseError, UniverseSpec
from epicast.pipeline.universes.websphere import websphere_edges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = "universe.json"
EDGES = "edges"
"""The folder of the files, and of nothing else: any reader of Parquet can be given it."""


class Degrees(Struct, frozen=True):
    """How many there are of something, and how many of the other something each has."""

    number: int
    mean: float
    median: int
    p99: int
    most: int


class Universe(Struct, frozen=True):
    spec: UniverseSpec
    edges: int
    users: Degrees
    """Those with a subscription, and how many they have."""
    topics: Degrees
    """Those with a subscriber, and how many they have."""
    digest: str


class _Task(NamedTuple):
    spec: UniverseSpec
    directory: str
    chunk: int


class _Made(NamedTuple):
    edges: int
    digest: str


def generate(
    spark: SparkSession,
    spec: UniverseSpec,
    directory: Path,
    begin: Callable[[int], object] = lambda total: None,
    advance: Callable[[], object] = lambda: None,
) -> Universe:
    """`begin` is told how many chunks there are to make, `advance` of each one."""
    directory = directory.absolute()
    check(spec, directory)
    begin(spec.chunks)
    partial = directory.with_name(f".{directory.name}.generating-{os.getpid()}")
    try:
        (partial / EDGES).mkdir(parents=True)
        tasks = [_Task(spec, str(partial), chunk) for chunk in range(spec.chunks)]
        made: dict[int, _Made] = {}
        for chunk, one in run_tasks(spark, make_chunk, tasks):
            made[chunk] = one
            advance()
        digest = sha256("".join(made[chunk].digest for chunk in range(spec.chunks)).encode())
        universe = Universe(
            spec,
            sum(one.edges for one in made.values()),
            _degrees(spark, partial, "user"),
            _degrees(spark, partial, "topic"),
            digest.hexdigest()[:32],
        )
        replace_text(partial / FILE, msgspec.json.format(msgspec.json.encode(universe)).decode())
        partial.rename(directory)
    except OSError as error:
        raise UniverseError(f"{directory}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return universe


def check(spec: UniverseSpec, directory: Path) -> None:
    """What can be known before Spark is started."""
    spec.check()
    if spec.model == "grid":
        places_of(spec)
    if directory.exists():
        raise UniverseError(f"{directory} is there already; choose another directory")


def make_chunk(task: _Task) -> _Made:
    """In a worker."""
    edges = (grid_edges if task.spec.model == "grid" else websphere_edges)(task.spec, task.chunk)
    path = Path(task.directory) / EDGES / f"part-{task.chunk:06d}.parquet"
    _write(path, edges)
    digest = sha256()
    for column in edges:
        digest.update(np.ascontiguousarray(column).data)
    return _Made(len(edges[0]), digest.hexdigest())


def _write(path: Path, edges: Edges) -> None:
    """All or nothing; another attempt of the same task may be writing the same."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(
            pa.table({"user": edges[0], "topic": edges[1]}),
            partial,
            use_dictionary=False,
            column_encoding={"user": "DELTA_BINARY_PACKED", "topic": "DELTA_BINARY_PACKED"},
            compression="ZSTD",
            compression_level=1,
        )
        partial.replace(path)
    except OSError as error:
        raise UniverseError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_universe(directory: Path) -> Universe:
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=Universe)
    except FileNotFoundError:
        raise UniverseError(f"{directory} holds no universe: {FILE} is missing") from None
    except msgspec.MsgspecError as error:
        raise UniverseError(f"{directory / FILE} is damaged: {error}") from None


def _degrees(spark: SparkSession, directory: Path, of: str) -> Degrees:
    from pyspark.sql import functions as F

    degrees = spark.read.parquet(str(directory / EDGES)).groupBy(of).agg(F.count("*").alias("n"))
    row = degrees.agg(
        F.count("*"),
        F.coalesce(F.avg("n"), F.lit(0.0)),
        F.expr("coalesce(percentile_approx(n, array(0.5, 0.99), 10000), array(0, 0))"),
        F.coalesce(F.max("n"), F.lit(0)),
    ).first()
    assert row is not None
    number, mean, (median, p99), most = row
    return Degrees(number, round(mean, 3), median, p99, most)
