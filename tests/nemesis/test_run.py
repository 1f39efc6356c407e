"""A short run of real processes with a few faults: nothing is lost, and that is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicast.cli import main
from epicast.core import ConfigError
from epicast.experiments.nemesis.running import Run, Settings
from epicast.experiments.nemesis.schedule import CLIENTS, LINKS, SIDECARS, Fault, Kind
from epicast_checker import check
from epicast_checker.reading import find_logs

FAULTS = [
    Fault(1.0, Kind.KILL, "us/1", 1.0, "us", 1, 0),
    Fault(1.0, Kind.ONE_WAY, "us-eu", 2.0, LINKS, 1, 0),
    Fault(5.0, Kind.KILL, "publisher-us", 0.5, CLIENTS, 1, 0),
    Fault(1.0, Kind.KILL, "sidecar-us", 0.2, SIDECARS, 1, 0),
    Fault(1.6, Kind.RESTART, "sidecar-eu", 0.2, SIDECARS, 2, 0),
    Fault(2.0, Kind.PAUSE, "sidecar-us", 1.0, SIDECARS, 3, 0),
    Fault(2.5, Kind.WIPE, "eu/2", 0.5, "eu", 1, 0),
    # Started again while nobody of its region is there.
    Fault(8.0, Kind.BLACKOUT, "eu", 2.0, "eu", 2, 0),
    Fault(8.0, Kind.KILL, "subscriber-eu", 0.2, CLIENTS, 2, 0),
]


@pytest.mark.timeout(290)
def test_a_short_run(tmp_path: Path) -> None:
    settings = Settings(seconds=20.0, regions=2, replicas=2, rate=2000, rows=40)
    verdict = Run(settings, tmp_path, schedule=FAULTS).run(quiet=True)
    log = (tmp_path / "nemesis.log").read_text()
    assert verdict.clean, log
    assert not any(verdict.counts.values()) and not verdict.troubles
    assert verdict.faults == {
        "blackout": 1, "kill": 4, "one-way": 1, "pause": 1, "restart": 1, "wipe": 1,
    }  # fmt: skip
    assert verdict.acked > 0 and verdict.delivered > verdict.acked
    assert "kill us/1" in log
    assert len((tmp_path / "schedule.txt").read_text().splitlines()) == len(FAULTS)
    # Whoever was killed went on in another log, and every replica was looked at in the end.
    logs = find_logs(tmp_path / "logs")
    assert [log.name for log in logs].count("publisher-us") == 2
    assert [log.name for log in logs].count("subscriber-eu") == 2
    assert {log.name for log in logs} >= {"late-us-1", "late-us-2", "late-eu-1", "late-eu-2"}
    # And what somebody did not write down is missed.
    for each in logs:
        if each.name == "publisher-us":
            each.path.unlink()
    assert check(tmp_path / "logs").faults > 0


def test_the_plan_is_printed_and_nothing_done(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["nemesis", "--minutes", "1", "--seed", "5", "--plan"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [str(fault) for fault in Settings(seconds=60.0, seed=5).schedule()]
    assert len(lines) > 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "{folder}"], "is not empty"),
        (["--minutes", "1000000000", "--out", "{folder}/new"], "GB"),
        (["--regions", "0"], "regions"),
    ],
)
def test_wrong_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (tmp_path / "something").touch()
    filled = [argument.format(folder=tmp_path) for argument in arguments]
    assert main(["nemesis", *filled]) == 2
    assert said in capsys.readouterr().err


def test_settings_name_what_is_wrong() -> None:
    with pytest.raises(ConfigError, match="rate: 0"):
        Settings(seconds=1.0, rate=0)
