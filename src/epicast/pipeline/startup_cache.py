"""A cache of loaded classes, made once, that halves the time Spark takes to start.

From Java 24 on it is an ahead-of-time cache, before that an archive of classes. It fits one Java
and one Spark; where it does not fit, Java ignores it and starts as slowly as without.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from epicast.pipeline.errors import SparkFailed, missing
from epicast.pipeline.folders import cache_folder
from epicast.pipeline.java import Java, find_java

_AHEAD_OF_TIME = 24
_PATIENCE_S = 300.0
_RECORDER = "epicast.pipeline.recording"


def cache_file(java: Java) -> Path:
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        raise missing("pyspark") from None
    return cache_folder() / f"startup-{spark}-java-{java.version}"


def existing_cache(java: Java) -> str:
    """The JVM option that uses the cache; empty if there is none."""
    file = cache_file(java)
    if not file.exists():
        return ""
    return (
        f"-XX:AOTCache={file}" if java.major >= _AHEAD_OF_TIME else f"-XX:SharedArchiveFile={file}"
    )


def recording_option(java: Java, file: Path) -> str:
    if java.major >= _AHEAD_OF_TIME:
        return f"-XX:AOTCacheOutput={file}"
    return f"-XX:ArchiveClassesAtExit={file}"


def build_cache() -> Path:
    """Run a small job in a process of its own and keep what it loaded; half a minute."""
    java = find_java(cache_folder())
    file = cache_file(java)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    command = [sys.executable, "-m", _RECORDER, recording_option(java, fresh)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SparkFailed(f"no start-up cache after {_PATIENCE_S:.0f} s") from None
    if done.returncode or not fresh.exists():
        said = (done.stderr or done.stdout).strip().splitlines()
        raise SparkFailed(f"the start-up cache was not made: {said[-1] if said else 'no reason'}")
    fresh.replace(file)
    return file
