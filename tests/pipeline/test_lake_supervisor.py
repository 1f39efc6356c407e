"""What keeps an ingestion going: drivers that only pretend, and real ones that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epicast.geo.local import LocalGeoplex
from epicast.pipeline.lake.driver_reports import Batch, Running
from epicast.pipeline.lake.ingestion_options import IngestionOptions
from epicast.pipeline.lake.layout import Lake
from epicast.pipeline.lake.supervisor import (
    IngestionFailed,
    Restarting,
    Supervisor,
    read_state,
)
from tests.pipeline.lake_runs import Run
from tests.pipeline.lake_support import assert_exactly_once, one_region, plain_rows, publish

BATCH = {"type": "batch", "committed": {"batch": 0, "rows": 5, "size": 1, "seconds": 0.1,
                                        "watermarks": {"s": [1, 5]}}}  # fmt: skip
AWAY = {"type": "failure", "error": "nobody there", "final": False}


def acting(*lives: str) -> Callable[..., subprocess.Popen[bytes]]:
    """Drivers that each run a script instead: the first life first."""
    left = list(lives)

    def start(self: Supervisor, log: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", f"import os, sys, signal\n{left.pop(0)}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    return start


def says(report: dict[str, Any]) -> str:
    return f"print({json.dumps(json.dumps(report))}, flush=True)\n"


def supervise(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *lives: str
) -> tuple[list[Any], Supervisor]:
    monkeypatch.setattr(Supervisor, "_start", acting(*lives))
    monkeypatch.setattr("time.sleep", lambda _: None)
    told: list[Any] = []
    options = IngestionOptions(lake=str(folder), proxy="127.0.0.1:1", once=True)
    return told, Supervisor(options, told.append, longest_pause_s=3.0)


def test_a_driver_that_ends_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told, supervisor = supervise(
        monkeypatch,
        tmp_path,
        says(AWAY) + "sys.exit(1)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "sys.exit(7)",
        says({"type": "running"}) + says(BATCH) + says(AWAY) + "sys.exit(1)",
        says(BATCH),
    )
    supervisor.run()
    restarts = [item for item in told if isinstance(item, Restarting)]
    assert [item.error.partition(";")[0] for item in restarts] == [
        "nobody there",
        "the driver was ended by SIGKILL",
        "the driver ended with status 7",
        "nobody there",
    ]
    # Pauses grow up to a limit while nothing is achieved, and begin anew when something was.
    assert [item.pause_s for item in restarts] == [1.0, 2.0, 3.0, 0.5]
    assert sum(isinstance(item, Batch) for item in told) == 2
    assert sum(isinstance(item, Running) for item in told) == 1
    state = read_state(tmp_path)
    assert state is not None
    assert (state.pid, state.restarts, state.last_error) == (os.getpid(), 4, "nobody there")


def test_a_full_disk_does_not_end_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told, supervisor = supervise(monkeypatch, tmp_path, says(AWAY) + "sys.exit(1)", says(BATCH))
    (tmp_path / "run.json").mkdir()  # cannot be replaced by a file, as if nothing could be written
    supervisor.run()
    assert [type(item) for item in told] == [Restarting, Batch]


def test_what_waiting_does_not_help_ends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    final = {"type": "failure", "error": "of another geoplex", "final": True}
    told, supervisor = supervise(monkeypatch, tmp_path, says(final) + "sys.exit(1)")
    with pytest.raises(IngestionFailed, match="of another geoplex"):
        supervisor.run()
    assert told == []


def test_what_the_driver_started_ends_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A JVM that survives its driver would go on with what the next one does."""
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    script = (
        "import subprocess\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        f" stdout=open({str(fifo)!r}, 'w'))\n"
    )
    _, supervisor = supervise(monkeypatch, tmp_path, script)
    supervisor.run()
    os.set_blocking(reading, True)
    assert os.read(reading, 1) == b""  # which takes until nobody holds the other end
    os.close(reading)


@pytest.mark.parametrize(("table", "victim"), [("delta", "driver"), ("parquet", "java")])
def test_nothing_is_lost_or_twice_when_driver_and_proxy_are_killed(
    tmp_path: Path, table: str, victim: str
) -> None:
    geoplex = one_region(["events"], tmp_path / "data")
    with LocalGeoplex(geoplex, any_ports=True) as local:
        address = local.address("us")
        publish(address, "events", 3000)
        run = Run(tmp_path / "lake", address, "--table", table)
        try:
            run.next("batch")
            if victim == "driver":
                run.kill_driver()
                assert "SIGKILL" in run.next("restarting")["error"]
            else:
                run.kill_java()
                assert "Spark" in run.next("restarting")["error"]
            publish(address, "events", 3000)
            run.next("batch")
            local.kill("us")
            local.start("us")
            publish(address, "events", 3000)
            run.wait_for("events", 9000)
            assert run.interrupt() == 130
        finally:
            run.process.kill()
            run.process.communicate()
    lake = Lake.open(tmp_path / "lake")
    assert_exactly_once(plain_rows(lake), "events", 9000)
    command = [sys.executable, "-m", "epicast", "lake", "status", str(lake.folder), "--json"]
    asked = subprocess.run([*command, "--proxy", address], capture_output=True, check=True)
    status = json.loads(asked.stdout)
    assert status["streams"]["events"]["watermark"][1] == 9000
    assert status["streams"]["events"]["behind"] is None  # nobody is there to ask
    assert status["bronze"]["rows"] == 9000
    assert status["run"]["restarts"] >= 1 and not status["run"]["alive"]
