"""What Spark runs on here, and how long it takes to start."""

from __future__ import annotations

import time
from importlib.metadata import version

from epicast.pipeline.folders import cache_folder
from epicast.pipeline.java import find_java
from epicast.pipeline.session import DEFAULT_MASTER, spark_session
from epicast.pipeline.startup_cache import cache_file


def examine(master: str = DEFAULT_MASTER) -> dict[str, str | float]:
    """Starts a session and counts something, twice: what a command waits for, and what it does not
    once the session is there."""
    java = find_java(cache_folder())
    cache = cache_file(java)
    start = time.perf_counter()
    with spark_session(master) as spark:
        session = time.perf_counter()
        spark.range(1000).count()
        first = time.perf_counter()
        spark.range(1000).count()
        second = time.perf_counter()
    stopped = time.perf_counter()
    return {
        "java": java.version,
        "java_from": java.origin,
        "java_home": str(java.runtime),
        "spark": version("pyspark"),
        "master": master,
        "startup_cache": str(cache) if cache.exists() else "",
        "session_s": round(session - start, 2),
        "first_result_s": round(first - start, 2),
        "next_result_s": round(second - first, 2),
        "stop_s": round(stopped - second, 2),
    }
