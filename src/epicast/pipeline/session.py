"""A Spark session that starts by itself, wherever it is asked for, and says nothing.

    with spark_session("local[*]") as spark:
        spark.range(10).count()

Java is found or brought along (`java`), workers run this very Python, and Spark's own chatter is
switched off; `EPICAST_SPARK_LOGS=1` lets it speak. There is one session per process, as in Spark.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from epicast.pipeline.errors import (
    SparkFailed,
    is_about_lost_java,
    is_of_spark,
    missing,
    reason_of,
)
from epicast.pipeline.folders import cache_folder, keep_file
from epicast.pipeline.gateway import (
    changed_environment,
    end_jvm,
    launch_jvm,
    own_interrupts,
    quiet_gateway,
)
from epicast.pipeline.java import Java, find_java
from epicast.pipeline.masters import check_master, is_this_process
from epicast.pipeline.startup_cache import existing_cache
from epicast.pipeline.threads import one_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
DEFAULT_MEMORY = "2g"
"""Of the driver, which in local mode does everything."""
_GAVE_UP = "stopped SparkContext"
"""All that Spark says when a master does not register it, after a minute."""
# Errors come as exceptions. The gateway would announce any level but the root's.
_QUIET = """\
rootLogger.level = off
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
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
    except Exception as error:
        _stop(spark)
        if is_about_lost_java(error) or is_of_spark(error):
            raise SparkFailed(
                f"the job failed: {reason_of(error)}; for all Spark has to say, set "
                "EPICAST_SPARK_LOGS=1"
            ) from error
        raise
    except BaseException:  # an interrupt, most likely in the middle of a call
        end_jvm(spark)
        raise
    else:
        _stop(spark)


def _stop(spark: SparkSession) -> None:
    try:
        spark.stop()
    except Exception as error:
        if not is_about_lost_java(error):  # then there is nothing to stop
            raise


def start_session(
    master: str = DEFAULT_MASTER,
    *,
    memory: str = DEFAULT_MEMORY,
    config: Mapping[str, str] | None = None,
    recording: str = "",
) -> SparkSession:
    """`recording` is the JVM option that writes a start-up cache, instead of using one."""
    check_master(master)
    java = find_java(cache_folder())
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise missing(f"pyspark ({error})") from error
    settings = {**_settings(master, memory), **(config or {})}
    builder: Any = SparkSession.builder.appName("epicast").master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        _prepare(master)
        if not os.environ.get("EPICAST_SPARK_LOGS"):
            quiet_gateway()
        with changed_environment(_for_the_jvm(java, recording)):
            launch_jvm({**settings, "spark.master": master})
        with own_interrupts():
            spark = builder.getOrCreate()
        if not os.environ.get("EPICAST_SPARK_LOGS"):
            _silence(spark)
        return spark  # type: ignore[no-any-return]
    except Exception as error:
        reason = reason_of(error)
        if _GAVE_UP in reason and master.startswith("spark://"):
            reason = "what answers there does not act as a Spark master of this version"
        raise SparkFailed(
            f"Spark did not start on {master} with Java {java.version} ({java.origin}): "
            f"{reason}; for all it has to say, set EPICAST_SPARK_LOGS=1"
        ) from error


def _silence(spark: Any) -> None:
    """Some of the libraries that Spark brings along print warnings, and ask no logger."""
    java = spark._jvm.java
    java.lang.System.setErr(java.io.PrintStream(java.io.OutputStream.nullOutputStream()))


def check_spark() -> None:
    """Raise `SparkMissing` if there is no pyspark, or no Java to run it. Starts nothing."""
    if find_spec("pyspark") is None:
        raise missing("pyspark")
    find_java(cache_folder())


def _prepare(master: str) -> None:
    """What Spark takes from the environment at any time."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _for_the_jvm(java: Java, recording: str) -> dict[str, str]:
    """What only the start of a JVM may see: commands started from this process find a Java and
    options of their own."""
    options = [os.environ.get("SPARK_SUBMIT_OPTS", "")]
    if not os.environ.get("EPICAST_SPARK_LOGS"):
        logs = keep_file(cache_folder() / "log4j2.properties", _QUIET)
        options.append(f"-Dlog4j2.configurationFile={shlex.quote(str(logs))}")
        options.append("-Xlog:disable -Xlog:all=error:stderr")
    options.append(recording or existing_cache(java))
    joined = " ".join(option for option in options if option)
    return {"JAVA_HOME": str(java.home), "SPARK_SUBMIT_OPTS": joined}


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
    for name, value in one_thread(os.environ).items():
        settings[f"spark.executorEnv.{name}"] = value
    if master.startswith("local"):
        settings["spark.driver.host"] = "127.0.0.1"
    if is_this_process(master):
        # A machine that was asleep for minutes must not take its own process for lost.
        settings["spark.network.timeout"] = "7d"
        # Elsewhere the daemon starts before the package is there.
        settings["spark.python.daemon.module"] = "epicast.pipeline.daemon"
    return settings
