"""Starting a JVM: nothing of it stays in the environment, and Ctrl-C waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from epicast.pipeline.gateway import changed_environment, interrupts_later


def test_the_environment_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPICAST_TEST_SET", "before")
    monkeypatch.delenv("EPICAST_TEST_UNSET", raising=False)
    with changed_environment({"EPICAST_TEST_SET": "a", "EPICAST_TEST_UNSET": "b"}):
        assert (os.environ["EPICAST_TEST_SET"], os.environ["EPICAST_TEST_UNSET"]) == ("a", "b")
    assert os.environ["EPICAST_TEST_SET"] == "before"
    assert "EPICAST_TEST_UNSET" not in os.environ


def test_what_a_session_was_started_with_is_not_handed_on(spark: Any) -> None:
    assert spark.range(3).count() == 3
    assert "log4j2" not in os.environ.get("SPARK_SUBMIT_OPTS", "")
    assert "epicast" not in os.environ.get("JAVA_HOME", "")


def test_an_interrupt_waits_for_the_end() -> None:
    before = signal.getsignal(signal.SIGINT)
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupts_later():
        signal.raise_signal(signal.SIGINT)
        reached = True
    assert reached
    assert signal.getsignal(signal.SIGINT) == before
    with interrupts_later():
        pass  # and nobody is interrupted who was not


def test_an_error_is_not_hidden_by_an_interrupt() -> None:
    with pytest.raises(ValueError, match="first"), interrupts_later():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("first")


def test_other_threads_are_never_interrupted() -> None:
    def work() -> None:
        with interrupts_later():
            done.append(1)

    done: list[int] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1]


WAITING = """
import os, signal, threading
from epicast.pipeline.session import spark_session
try:
    with spark_session("local[1]") as spark:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        spark._jvm.java.lang.Thread.sleep(60_000)
except KeyboardInterrupt:
    print("interrupted")
with spark_session("local[1]") as spark:
    print(spark.range(5).count())
"""


def test_an_interrupt_while_java_is_asked_is_just_an_interrupt() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAITING], capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.stdout, done.stderr) == ("interrupted\n5\n", "")
