"""A Spark session that starts by itself, wherever it is asked for, and says nothing.

    with spark_session("local[*]") as spark:
        spark.range(10).count()

Java is found or brought along (`java`), workers run this very Python, and Spark's own chatter is
switched off; `EPICAST_SPARK_LOGS=1` lets it speak. There is one session per process, as in Spark.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from epicast.pipeline.errors import SparkFailed, missing
from epicast.pipeline.folders import cache_folder, keep_file
from epicast.pipeline.java import Java, find_java
from epicast.pipeline.startup_cache import existing_cache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
DEFAULT_MEMORY = "2g"
"""Of the driver, which in local mode does everything."""
_CONNECT_S = 3.0
_GIVEN = dict(os.environ)
"""As the user has it. What is prepared for Spark must not be taken for that the next time."""
_MASTER = re.compile(
    r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|spark://.+|yarn|k8s://.+"
)
_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


@contextmanager
def spark_session(
    master: str = DEFAULT_MASTER,
    *,
    memory: str = DEFAULT_MEMORY,
    config: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Started here, stopped at the end. `memory` is that of the driver, such as "4g"."""
    spark = start_session(master, memory=memory, config=config)
    try:
        yield spark
    finally:
        spark.stop()


def start_session(
    master: str = DEFAULT_MASTER,
    *,
    memory: str = DEFAULT_MEMORY,
    config: Mapping[str, str] | None = None,
    recording: str = "",
) -> SparkSession:
    """`recording` is the JVM option that writes a start-up cache, instead of using one."""
    check_master(master)
    java = find_java(cache_folder(), _GIVEN)
    _prepare(java, master, recording)
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise missing(f"pyspark ({error})") from error
    builder: Any = SparkSession.builder.appName("epicast").master(master)
    for name, value in {**_settings(master, memory), **(config or {})}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()  # type: ignore[no-any-return]
    except Exception as error:
        raise SparkFailed(
            f"Spark did not start on {master} with Java {java.version} ({java.origin}): "
            f"{_first_line(error)}; for all it has to say, set EPICAST_SPARK_LOGS=1"
        ) from error


def check_master(master: str) -> None:
    """Raise `SparkFailed` if it is no address of a master, or nobody is there: Spark itself takes a
    minute to say so, in many words."""
    if not _MASTER.fullmatch(master):
        raise SparkFailed(
            f"{master!r} is not a Spark master; use local[*], local-cluster[2,1,1024] or "
            "spark://HOST:PORT"
        )
    if not master.startswith("spark://"):
        return
    problems = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit():
            raise SparkFailed(f"{master!r}: {place!r} is not HOST:PORT")
        try:
            socket.create_connection((host, int(port)), _CONNECT_S).close()
            return
        except OSError as error:
            problems.append(f"{place}: {error.strerror or error}")
    raise SparkFailed(
        f"no Spark master answers at {master} ({'; '.join(problems)}); is it running?"
    )


def _prepare(java: Java, master: str, recording: str) -> None:
    """What Spark takes from the environment, before its JVM starts."""
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    options = [_GIVEN.get("SPARK_SUBMIT_OPTS", "")]
    if not os.environ.get("EPICAST_SPARK_LOGS"):
        logs = keep_file(cache_folder() / "log4j2.properties", _QUIET)
        options.append(f"-Dlog4j2.configurationFile={shlex.quote(str(logs))}")
        options.append("-Xlog:disable -Xlog:all=error:stderr")
    options.append(recording or existing_cache(java))
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(option for option in options if option)


def _settings(master: str, memory: str) -> dict[str, str]:
    settings = {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Twice as fast for small tasks as loopback.
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if master.startswith("local"):
        settings["spark.driver.host"] = "127.0.0.1"
    return settings


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
