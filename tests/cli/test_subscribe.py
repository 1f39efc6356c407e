"""`epicast subscribe` against a running geoplex."""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from epicast import sync
from epicast.geo.local import LocalGeoplex
from tests.cli.conftest import LAUNCH, Epicast


@pytest.fixture
def before(local: LocalGeoplex) -> int:
    """Three events are published behind this number of `audit`."""
    with sync.connect(local.address("eu"), agent=False) as node:
        last = node.stream("audit").publish_many(
            [b"one", b"two", b"\xff\x00"], [b"a", b"b", b"\xfe"], level="regions=2"
        )
    return last - 3


def test_events_are_lines(epicast: Epicast, before: int) -> None:
    done = epicast("subscribe", "audit", "--after", before, "--count", 2)
    assert done.status == 0
    assert done.out == f"{before + 1}\ta\tone\n{before + 2}\tb\ttwo\n"


@pytest.mark.parametrize("region", ["us", "eu", "ap"])
@pytest.mark.parametrize("how", [[], ["--agent"]])
def test_every_region_says_the_same(
    epicast: Epicast, local: LocalGeoplex, before: int, region: str, how: list[str]
) -> None:
    address = local.address(region)
    done = epicast(
        "subscribe", "audit", "--after", before, "--count", 3, "--json", "--from", address, *how
    )
    items = [json.loads(line) for line in done.out.splitlines()]
    assert [item["seq"] for item in items] == [before + 1, before + 2, before + 3]
    assert [item.get("value") for item in items] == ["one", "two", None]
    assert base64.b64decode(items[2]["value_base64"]) == b"\xff\x00"
    assert base64.b64decode(items[2]["key_base64"]) == b"\xfe"
    assert all(item["time_ns"] > 0 for item in items)


def test_batches_say_what_is_in_them(epicast: Epicast, before: int) -> None:
    done = epicast("subscribe", "audit", "--after", before, "--batches", "--count", 3, "--json")
    batches = [json.loads(line) for line in done.out.splitlines()]
    assert sum(batch["events"] for batch in batches) == 3
    assert (batches[0]["first"], batches[-1]["last"]) == (before + 1, before + 3)
    assert sum(batch["bytes"] for batch in batches) == len(b"onetwo\xff\x00ab\xfe")
    text = epicast("subscribe", "audit", "--after", before, "--batches", "--count", 3).out
    assert f"first {before + 1}\t" in text


def test_resuming_prints_each_event_once(epicast: Epicast, before: int, tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"

    def run(*more: object) -> list[str]:
        done = epicast("subscribe", "audit", "--after", before, "--resume", seen, *more)
        assert done.status == 0
        return [line.split("\t")[0] for line in done.out.splitlines()]

    assert run("--count", 2) == [str(before + 1), str(before + 2)]
    assert run("--no-follow") == [str(before + 3)]
    assert run("--no-follow") == []
    seen.write_text("not watermarks")
    done = epicast("subscribe", "audit", "--resume", seen)
    assert done.status == 2 and "holds no watermarks" in done.error_line


def test_what_comes_after_a_run_that_found_nothing_is_printed_by_the_next(
    epicast: Epicast, local: LocalGeoplex, tmp_path: Path
) -> None:
    with sync.connect(local.address("us"), agent=False) as node:
        invalidations = node.stream("invalidations")
        assert invalidations.head().seq == 0, "this test wants a stream without events"
        arguments = ("subscribe", "invalidations", "--resume", tmp_path / "seen", "--no-follow")
        assert epicast(*arguments).out == ""
        invalidations.publish(b"news", b"key")
        assert epicast(*arguments).out == "1\tkey\tnews\n"


def test_from_the_start_until_now(epicast: Epicast, before: int) -> None:
    done = epicast("subscribe", "audit", "--from-start", "--no-follow", "--batches", "--json")
    batches = [json.loads(line) for line in done.out.splitlines()]
    assert batches[0]["first"] == 1 and batches[-1]["last"] >= before + 3
    assert all(after["first"] == one["last"] + 1 for one, after in pairwise(batches))


def test_wrong_calls(epicast: Epicast) -> None:
    done = epicast("subscribe", "nope")
    assert done.status == 2 and "there is no stream 'nope'" in done.error_line
    assert epicast("subscribe", "audit", "--after", 1, "--from-start").status == 2
    done = epicast("subscribe", "audit", "--from", "127.0.0.1:9")
    assert done.status == 2 and "no proxy at 127.0.0.1:9" in done.error_line


@contextmanager
def subscribing(local: LocalGeoplex, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, "subscribe", "audit", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "EPICAST_ADDRESS": local.address("us")},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_ctrl_c_ends_it_and_saves_where_it_was(
    epicast: Epicast, local: LocalGeoplex, before: int, tmp_path: Path
) -> None:
    seen = tmp_path / "seen.json"
    with subscribing(local, "--after", str(before), "--resume", str(seen)) as process:
        assert process.stdout is not None and process.stderr is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines[0] == b"%d\ta\tone\n" % (before + 1)
        assert lines[2] == b"%d\t\xfe\t\xff\x00\n" % (before + 3)
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == 130
    # At least once: whoever interrupts before the next event was asked for sees some again.
    saved = json.loads(seen.read_text())["audit"][1]
    assert before <= saved <= before + 3
    resumed = epicast("subscribe", "audit", "--resume", seen, "--no-follow").out.splitlines()
    assert [line.split("\t")[0] for line in resumed] == list(map(str, range(saved + 1, before + 4)))


def test_whoever_reads_may_have_enough(local: LocalGeoplex, before: int) -> None:
    with subscribing(local, "--after", str(before)) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"%d\ta\tone\n" % (before + 1)
        process.stdout.close()
        with sync.connect(local.address("us"), agent=False) as node:
            node.stream("audit").publish(b"one more")
        assert process.wait(60) == 0
        assert process.stderr.read() == b""
