"""Masters that are none, told before Spark is started, in a sentence."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from epicast.pipeline.errors import SparkFailed, reason_of
from epicast.pipeline.masters import check_master, objection_of

REFUSAL = struct.pack(">QBI", 13 + 4, 8, 4) + b"none"
"""Of Spark's network layer: there is no such file."""


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Somebody listens there, who gives the same answer to everybody, or hangs up if it is none."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(1)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def port() -> Iterator[int]:
    """Somebody listens there, and is like Spark."""
    with answering(REFUSAL) as listening:
        yield listening


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port that is taken and does not listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    ("master", "complaint"),
    [
        ("somewhere", "is not a Spark master; use local"),
        ("", "is not a Spark master; use local"),
        ("local[0]", "is not a Spark master; use local"),
        ("local[2", "is not a Spark master; use local"),
        ("local[2]x", "is not a Spark master; use local"),
        ("local-cluster[2,1]", "is not a Spark master; use local"),
        ("local-cluster[2,1,100]", "gives a worker 100 MB, and it needs 1024"),
        ("spark://", "is not a Spark master; use local"),
        ("spark://nohost", "'nohost' is not HOST:PORT"),
        ("spark://:7077", "':7077' is not HOST:PORT"),
        ("spark://127.0.0.1:99999", "'127.0.0.1:99999' is not HOST:PORT"),
        ("spark://127.0.0.1:x", "'127.0.0.1:x' is not HOST:PORT"),
        ("spark://a..b:7077", "no Spark master answers at spark://a..b:7077"),
    ],
)
def test_what_is_no_master(master: str, complaint: str) -> None:
    with pytest.raises(SparkFailed, match=complaint):
        check_master(master)


@pytest.mark.parametrize("scheme", ["spark://", "k8s://", "k8s://http://", "spark://[::1]:1,"])
def test_where_nobody_answers(scheme: str, nobody: int) -> None:
    with pytest.raises(SparkFailed, match=rf"no Spark master answers at .*127\.0\.0\.1:{nobody}: "):
        check_master(f"{scheme}127.0.0.1:{nobody}")


def test_yarn_needs_files_that_describe_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with pytest.raises(SparkFailed, match="set HADOOP_CONF_DIR or YARN_CONF_DIR"):
        check_master("yarn")
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/yarn")
    check_master("yarn")


@pytest.mark.parametrize(
    "master",
    ["local", "local[1]", "local[*]", "local[2,3]", "local[*, 4]", "local-cluster[2,1,1024]"],
)
def test_what_needs_no_answer(master: str) -> None:
    check_master(master)


def test_one_master_of_several_is_enough(port: int, nobody: int) -> None:
    check_master(f"spark://127.0.0.1:{port}")
    check_master(f"spark://127.0.0.1:{nobody},127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"HTTP/1.1 400 Illegal character\r\n\r\n", "says 'HTTP/1.1 400 .*that is a web page"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it is no Spark master, and says 'SSH-2.0-OpenSSH_9.2'$"),
        (bytes(20), "it is no Spark master"),
        (struct.pack(">QB", 100, 77) + bytes(90), "it is no Spark master"),
    ],
)
def test_somebody_else_answers(answer: bytes, complaint: str) -> None:
    with answering(answer) as port, socket.create_connection(("127.0.0.1", port)) as connection:
        assert re.search(complaint, objection_of(connection))
    with answering(answer) as port, pytest.raises(SparkFailed, match=f"127.0.0.1:{port}: it is no"):
        check_master(f"spark://127.0.0.1:{port}")


@pytest.mark.parametrize("answer", [REFUSAL, b"\x15\x03\x03\x00\x02\x02\x46" + bytes(9), b""])
def test_what_may_be_a_master_is_left_to_spark(answer: bytes) -> None:
    """One that wants its connections encrypted sends an alert, or hangs up."""
    with answering(answer) as port, socket.create_connection(("127.0.0.1", port)) as connection:
        assert objection_of(connection) == ""


def test_who_listens_and_says_nothing() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as connection,
    ):
        assert "it says nothing, for 0.2 s" in objection_of(connection, 0.2)


JAVA = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not reach it.
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:603)
Caused by: java.io.IOException: Refused: /127.0.0.1:1
\tat io.netty.Thing.run(Thing.java:30)
Caused by: java.net.ConnectException: Connection refused
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (JAVA, "Could not reach it: Connection refused"),
        ("[JAVA_GATEWAY_EXITED] Java ended.\nmore", "[JAVA_GATEWAY_EXITED] Java ended"),
        (
            "An error occurred while calling o1.x\n: java.lang.NullPointerException\n",
            "RuntimeError",
        ),
        ("", "RuntimeError"),
    ],
)
def test_what_java_says_as_a_sentence(text: str, reason: str) -> None:
    assert reason_of(RuntimeError(text)) == reason
