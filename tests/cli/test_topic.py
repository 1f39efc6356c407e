"""`epicast topic` with peers of this process and of others."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from epicast.cli import main
from epicast.cli.topic import _written
from epicast.client import Confirmed, Gap, Revised
from tests.cli.conftest import LAUNCH


@contextmanager
def joining(*options: str, topic: str = "chat") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that prints the events of a topic, and its address."""
    command = [sys.executable, "-c", LAUNCH, "topic", "join", topic, *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    overdue = Timer(60, process.kill)  # or reading its lines would never end
    overdue.start()
    try:
        assert process.stderr is not None
        yield process, process.stderr.readline().split()[3].rstrip(":")
    finally:
        overdue.cancel()
        process.kill()
        process.communicate()


def test_what_is_published_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with joining("--listen", "127.0.0.1", "--count", "3", "--json") as (process, address):
        arguments = ["--contact", address, "--value", "one", "--value", "two", "--key", "k"]
        assert main(["topic", "publish", "chat", *arguments, "--stay", "1", "--json"]) == 0
        published = json.loads(capsys.readouterr().out)
        assert published["events"] == 2
        assert (
            main(["topic", "status", "chat", "--contact", address, "--watch", "0.5", "--json"]) == 0
        )
        status = json.loads(capsys.readouterr().out)
        assert (status["topic"], status["mode"], status["state"]) == ("chat", "gossip", "joined")
        assert status["view"] >= 1 and status["bytes_sent"] > 0
        assert main(["topic", "publish", "chat", "--contact", address, "--value", "three"]) == 0
        lines = [json.loads(line) for line in process.communicate(timeout=60)[0].splitlines()]
        assert process.returncode == 0
    assert {line["value"] for line in lines} == {"one", "two", "three"}
    first = [line for line in lines if line["value"] == "one"]
    assert [(each["source"], each["seq"], each["key"]) for each in first] == [
        (published["source"], 1, "k")
    ]


def test_a_dead_contact_is_an_error_that_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    arguments = ["--contact", "127.0.0.1:1", "--value", "x", "--timeout", "0.3"]
    assert main(["topic", "publish", "chat", *arguments]) == 2
    error = capsys.readouterr().err
    assert "topic 'chat' was not joined within 0.3 seconds" in error
    assert "127.0.0.1:1 cannot be reached" in error
    assert time.monotonic() - began < 60


def test_publishing_to_nobody_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["topic", "publish", "chat", "--value", "x"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "nobody to publish to" in error and "--contact HOST:PORT" in error
    file = tmp_path / "geoplex.toml"
    text = Path("examples/geoplex.toml").read_text()
    file.write_text(text + '\n[topics.chat]\ncontacts = ["127.0.0.1:1"]\n')
    arguments = ["topic", "publish", "chat", "--value", "x", "--geoplex", str(file)]
    assert main([*arguments, "--timeout", "0.3"]) == 2
    assert "was not joined within 0.3 seconds" in capsys.readouterr().err


def test_a_contact_whose_name_is_not_known_is_tried_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = []

    def lookup(host: str, *arguments: object, **options: object) -> list[object]:
        looked_up.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("epicast.client.addresses.socket.getaddrinfo", lookup)
    contacts = ["--contact", "no-such.example:7500", "--contact", "nor-this.example:7500"]
    arguments = [*contacts, "--value", "x", "--timeout", "1"]
    assert main(["topic", "publish", "chat", *arguments]) == 2
    error = capsys.readouterr().err
    assert "trying again: no-such.example:7500: no way to get there" in error
    assert "topic 'chat' was not joined within 1 seconds: no contact answers, attempt 4" in error
    assert looked_up == ["no-such.example", "nor-this.example"] * 2


def test_who_joins_is_told_when_it_has() -> None:
    with joining("--listen", "127.0.0.1") as (first, address):
        assert first.stderr is not None
        assert first.stderr.readline() == "Joined topic 'chat'.\n"  # nobody to wait for
        with joining("--contact", address) as (second, _):
            assert second.stderr is not None
            assert second.stderr.readline() == "Joined topic 'chat'.\n"
    with joining("--contact", "127.0.0.1:1") as (alone, _):
        assert alone.stderr is not None
        assert "no contact answers, trying again" in alone.stderr.readline()


def test_the_budget_of_the_peer_holds(capsys: pytest.CaptureFixture[str]) -> None:
    with joining("--listen", "127.0.0.1") as (_, address):
        arguments = ["topic", "status", "chat", "--contact", address, "--watch", "2", "--json"]
        assert main([*arguments, "--budget", "500"]) == 0
        status = json.loads(capsys.readouterr().out)
        assert status["dropped_messages"] > 0
        assert main(arguments) == 0
        assert json.loads(capsys.readouterr().out)["dropped_messages"] == 0


def test_an_unknown_mode_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "status", "chat", "--mode", "gosip"]) == 2
    assert "there is no topic mode 'gosip'; did you mean 'gossip'?" in capsys.readouterr().err


def test_early_events_are_printed_and_what_became_of_them() -> None:
    ordered = ("--mode", "ordered")
    early = ("--early", "0.5", "--count", "2", "--json")
    with joining("--listen", "127.0.0.1", *ordered, *early, topic="orders") as (process, address):
        values = ["--value", "one", "--value", "two", "--stay", "5"]
        assert main(["topic", "publish", "orders", *ordered, "--contact", address, *values]) == 0
        lines = [json.loads(line) for line in process.communicate(timeout=60)[0].splitlines()]
        assert process.returncode == 0
    assert [line["value"] for line in lines if line["kind"] == "data"] == ["one", "two"]
    assert lines[-1] == {"kind": "confirmed", "events": 2, "up_to": 2}


def test_what_is_no_event_is_written_as_a_comment() -> None:
    written = [
        _written(item) for item in (Gap(3), Gap(2, 255, 4, 5), Confirmed(2, 7), Revised(3, 7))
    ]
    assert [line for _, line in written] == [
        b"# 3 events were given up: too slow",
        b"# 2 events are missing: 00000000000000ff/4 to 5",
        b"# confirmed: the first 7 events",
        b"# revised: the first 7 events stand, the 3 after them do not",
    ]
    assert [fields["kind"] for fields, _ in written] == ["gap", "gap", "confirmed", "revised"]
    assert written[1][0] == {
        "kind": "gap", "events": 2, "source": "00000000000000ff", "first": 4, "last": 5,
    }  # fmt: skip


def test_early_is_refused_where_there_is_no_order(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["topic", "join", "chat", "--listen", "127.0.0.1", "--early", "0.9"]
    assert main(arguments) == 2
    assert "early: topic 'chat' has mode 'gossip'" in capsys.readouterr().err
