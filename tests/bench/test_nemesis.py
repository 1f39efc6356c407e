"""Other systems under the nemesis, those that are installed; and what the bench says of it."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench import bench_nemesis
from bench.nemesis import compare, jetstream, redis_ha
from bench.nemesis.cluster import REGION, Cluster
from bench.nemesis.compare import DISKS, PROCESSES, Row
from epicast.experiments.nemesis.schedule import Fault, Kind

GOOD = Row("Epicast", 1000, 0, 0, 0, 0.5, 0.6, 9, 0)
KILL = [Fault(1.0, Kind.KILL, f"{REGION}/1", 1.0, REGION, 1, 0)]


def test_schedules_have_what_all_can_suffer() -> None:
    assert {fault.kind for fault in compare.schedule(1, 600.0, PROCESSES)} == PROCESSES
    assert {fault.kind for fault in compare.schedule(1, 600.0, DISKS)} == DISKS


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("module", "run"), [(jetstream, compare.nats), (redis_ha, compare.redis)])
def test_a_rival_is_mistreated_and_judged(module: object, run: object) -> None:
    if reason := module.missing():  # type: ignore[attr-defined]
        pytest.skip(f"{module.NAME}: {reason}")  # type: ignore[attr-defined]
    row: Row = run(4.0, KILL)  # type: ignore[operator]
    assert row.system == module.NAME  # type: ignore[attr-defined]
    assert row.acked > 0 and row.faults == 1
    assert row.lost == row.never_delivered == 0  # one server of three was killed


@pytest.mark.parametrize(("change", "holds"), [({}, True), ({"lost": 1}, False)])
def test_verdict(monkeypatch: pytest.MonkeyPatch, change: dict[str, int], holds: bool) -> None:
    rival = replace(GOOD, system="Other", lost=5)  # which decides nothing
    monkeypatch.setattr(bench_nemesis, "rows", lambda *_: iter([replace(GOOD, **change), rival]))
    result = bench_nemesis.run(quick=True)
    assert result.holds is holds
    assert "5 lost" in str(result.figures["disks: Other"])


class Sleepers:
    """Servers that do nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(self, number: int) -> list[str]:
        return [sys.executable, "-c", "import time; time.sleep(600)"]

    def data(self, number: int) -> Path:
        return self.folder / f"data-{number}"

    def is_whole(self) -> bool:
        return True


def test_servers_are_killed_wiped_and_started_again(tmp_path: Path) -> None:
    with Cluster(Sleepers(tmp_path)) as cluster:
        before = dict(cluster.running)
        (tmp_path / "data-2" / "file").touch()
        (tmp_path / "data-3" / "file").touch()
        wipe = Fault(0.0, Kind.WIPE, "us/2", 0.0, REGION, 1, 0)
        cluster.begin(wipe)
        assert before[2].returncode == -signal.SIGKILL
        cluster.mend(wipe)
        assert not (tmp_path / "data-2" / "file").exists()
        assert (tmp_path / "data-3" / "file").exists()
        everybody = Fault(0.0, Kind.BLACKOUT, REGION, 0.0, REGION, 2, 0)
        cluster.begin(everybody)
        assert not cluster.running
        cluster.mend(everybody)
        assert sorted(cluster.running) == [1, 2, 3]
        after = dict(cluster.running)
    assert all(process.returncode is not None for process in after.values())
