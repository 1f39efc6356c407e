"""A session whose workers have this package, which Spark can be given only once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from epicast.pipeline import session
from epicast.pipeline.shipping import shipped_package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def workload_session(master: str) -> Iterator[SparkSession]:
    with session.spark_session(master) as spark, shipped_package(spark.sparkContext, master):
        yield spark
