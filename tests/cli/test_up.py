"""`epicast up`, `proxy` and `agent` as processes: ready, interrupted, and gone."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from epicast import sync
from epicast.geo.ports import free_ports
from tests.cli.conftest import LAUNCH, Epicast
from tests.geo.support import eventually, geoplex_text, is_alive, parent_of


@contextmanager
def running(folder: Path, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """A command that runs until it is told to stop, and what it announced."""
    command = [sys.executable, "-c", LAUNCH, *map(str, arguments), "--json"]
    with (folder / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (folder / "stderr").read_text()
            yield process, json.loads(line)
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_embedded_geoplex_comes_and_goes(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "up", "--port", free_ports(1)[0]) as (process, announced):
        regions = announced["regions"]
        assert list(regions) == ["us", "eu", "ap"] and "prices" in announced["streams"]
        pids = [region["pid"] for region in regions.values()]
        nursery = parent_of(pids[0])
        assert all(map(is_alive, pids))
        with sync.connect(regions["eu"]["address"], agent=False) as node:
            assert node.stream("audit").publish(b"value") == 1
        process.send_signal(number)
        assert process.wait(60) == 0
    eventually(lambda: not any(map(is_alive, [*pids, nursery])), "processes are left")
    written = (tmp_path / "stderr").read_text()
    assert "Stopped." in written and "Traceback" not in written
    assert (tmp_path / "epicast-data" / "us" / "streams" / "prices").is_dir()


def test_up_ends_when_a_proxy_does(tmp_path: Path) -> None:
    arguments = ("up", "--memory", "--port", free_ports(1)[0])
    with running(tmp_path, *arguments) as (process, announced):
        pids = [region["pid"] for region in announced["regions"].values()]
        subprocess.run(["kill", "-KILL", str(pids[1])], check=True)
        assert process.wait(60) == 1
    assert "the proxy of 'eu' ended with status -9" in (tmp_path / "stderr").read_text()
    eventually(lambda: not any(map(is_alive, pids)))
    assert not (tmp_path / "epicast-data").exists()


def test_ports_in_use_are_passed_over(tmp_path: Path) -> None:
    with running(tmp_path, "up", "--memory", "--port", free_ports(1)[0]) as (_, first):
        port = first["regions"]["us"]["address"].rpartition(":")[2]
        (tmp_path / "second").mkdir()
        with running(tmp_path / "second", "up", "--memory", "--port", port) as (_, second):
            addresses = [
                region["address"] for each in (first, second) for region in each["regions"].values()
            ]
    assert len(set(addresses)) == 6


def test_a_file_a_proxy_each_and_an_agent(tmp_path: Path) -> None:
    file = tmp_path / "geoplex.toml"
    file.write_text(geoplex_text(("us", "eu"), tmp_path / "data"))
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir()
    with (
        running(folders[0], "proxy", file, "us", "--log-format", "json") as (us, _),
        running(folders[1], "proxy", file, "eu") as (eu, at_eu),
        running(folders[2], "agent", file, "eu") as (agent, at_agent),
    ):
        with (
            sync.connect(at_eu["address"], agent=False) as near,
            sync.connect(at_agent["address"], agent=False, timeout=30) as far,
        ):
            subscription = far.stream("orders").subscribe(after=0)
            assert near.stream("orders").publish(b"value") == 1
            item = subscription.get()
            assert item.seq == 1  # type: ignore[union-attr]
        for process in (agent, eu, us):
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    for line in (folders[0] / "stderr").read_text().splitlines():
        assert line == "Stopped." or json.loads(line)["region"] == "us"


def test_up_with_a_file(tmp_path: Path) -> None:
    file = tmp_path / "geoplex.toml"
    file.write_text(geoplex_text(("us", "eu"), tmp_path / "data"))
    with running(tmp_path, "up", file) as (process, announced):
        assert list(announced["regions"]) == ["us", "eu"]
        assert announced["regions"]["us"]["data"] == str(tmp_path / "data" / "us")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_wrong_calls(epicast: Epicast, tmp_path: Path) -> None:
    file = tmp_path / "geoplex.toml"
    done = epicast("up", file)
    assert done.status == 2 and "geoplex.toml: cannot be read" in done.error_line
    file.write_text("name = 7")
    done = epicast("up", file)
    assert done.status == 2 and "geoplex.toml" in done.err and "name" in done.err
    file.write_text(geoplex_text())
    done = epicast("up", file, "--memory")
    assert done.status == 2 and "without a file" in done.err
    done = epicast("up", "--memory", "--data", tmp_path)
    assert done.status == 2 and "either --data or --memory" in done.err
    done = epicast("proxy", file, "uss")
    assert done.status == 2 and "did you mean 'us'" in done.error_line
    done = epicast("agent", file, "mars")
    assert done.status == 2 and "there is no region 'mars'" in done.error_line


def test_a_port_in_use_is_one_line(epicast: Epicast, tmp_path: Path) -> None:
    file = tmp_path / "geoplex.toml"
    file.write_text(geoplex_text(("us",), streams='[streams.orders]\nowner = "us"\n'))
    with running(tmp_path, "proxy", file, "us"):
        done = epicast("up", file)
        assert done.status == 2 and "us: cannot listen on 127.0.0.1" in done.error_line
        done = epicast("proxy", file, "us")
        assert done.status == 2 and "cannot listen on 127.0.0.1" in done.error_line
