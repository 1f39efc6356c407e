"""The JVM behind a session."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


def launch_jvm(settings: Mapping[str, str]) -> None:
    """Start it, if this process has none. Interrupted in the middle of that, PySpark would leave a
    JVM behind that nobody can reach and that never ends; so Ctrl-C has to wait for a second."""
    from pyspark import SparkConf, SparkContext

    context: Any = SparkContext
    with interrupts_later():
        context._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))


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
