"""The JVM behind a session."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_TO_END = 10.0
"""Seconds in which a JVM that is asked to end has to do so."""


def launch_jvm(settings: Mapping[str, str]) -> None:
    """Start it, if this process has none. Interrupted in the middle of that, PySpark would leave a
    JVM behind that nobody can reach and that never ends; so Ctrl-C has to wait for a second."""
    from pyspark import SparkConf, SparkContext

    context: Any = SparkContext
    with interrupts_later():
        context._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))


def end_jvm(spark: Any) -> None:
    """Instead of stopping the session, where a call was interrupted: py4j then hangs up on that
    call, and at times on the next one as well, which would be the one that stops. Asked to end,
    Spark cleans up behind itself; the next session starts a JVM of its own."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    process = context._gateway.proc
    with interrupts_later():
        spark.sparkContext._jsc = None  # so that nothing is stopped but what runs in this process,
        spark.sparkContext.stop()  # which would complain of the JVM's end
        process.terminate()
        try:
            process.wait(_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    context._gateway = context._jvm = None
    session: Any = SparkSession
    session._instantiatedSession = session._activeSession = None


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Ctrl-C stays what it was, and what comes of it is not logged. PySpark would have it cancel
    all jobs from inside a signal handler, over the very connection on which the interrupted code
    waits; a session that is left stops its jobs anyway."""
    if threading.current_thread() is not threading.main_thread():
        yield  # then PySpark leaves it alone as well
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def quiet_gateway() -> None:
    """What py4j has to say comes as exceptions too."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # a filter on the root does not see it
    root = logging.getLogger()
    if _not_of_py4j not in root.filters:
        root.addFilter(_not_of_py4j)  # and of interrupted ones without a logger of its own


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return os.sep + "py4j" + os.sep not in record.pathname


@contextmanager
def changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """As long as this lasts, for processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def interrupts_later() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is interrupted
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    if pressed:
        raise KeyboardInterrupt
