"""The process that records a start-up cache: `python -m epicast.pipeline.recording OPTION`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from epicast.pipeline.session import start_session


def work(spark: Any) -> None:
    """A bit of everything that commands do first."""

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    numbers = spark.range(0, 1000, 1, 2)
    numbers.groupBy((numbers.id % 7).alias("rest")).count().collect()
    numbers.mapInArrow(same, "id long").count()


def main(option: str) -> None:
    spark: Any = start_session("local[2]", recording=option)
    work(spark)
    gateway = spark.sparkContext._gateway
    spark.stop()
    # The cache is written while the JVM ends, which it does when nobody holds its input.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(sys.argv[1])
