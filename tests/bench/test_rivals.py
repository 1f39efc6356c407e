"""Every rival that is installed runs for a moment; what the benchmarks rely on holds."""

import sys

import pytest

from bench.rivals import contest
from bench.rivals.contest import NotInstalled, latency, missing, throughput
from bench.rivals.processes import PartFailed, Team


def skip_unless_installed(rival: str) -> None:
    if reason := missing(rival):
        pytest.skip(f"{rival}: {reason}")


@pytest.mark.parametrize("rival", contest.RIVALS)
def test_everybody_receives_everything(rival: str) -> None:
    skip_unless_installed(rival)
    assert throughput(rival, 3_000) > 0


def test_latency_of_every_event_at_every_subscriber() -> None:
    skip_unless_installed("nats")
    delays = latency("nats", rate=500, seconds=0.5)
    assert len(delays) == 3 * 250
    assert min(delays) > 0


def test_a_rival_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.rivals import zeromq

    monkeypatch.setattr(zeromq, "missing", lambda: "the package pyzmq is not installed")
    assert "zeromq" not in contest.installed()
    with pytest.raises(NotInstalled, match="zeromq skipped: the package pyzmq") as caught:
        throughput("zeromq", 10)
    assert caught.value.rival == "zeromq"


def test_an_unknown_rival() -> None:
    with pytest.raises(ValueError, match="no rival 'kafka'; there are: zeromq, nats"):
        throughput("kafka", 10)


def test_a_part_that_fails_says_why_and_all_are_ended() -> None:
    with (
        pytest.raises(PartFailed, match=r"(?s)broken has ended.*ZeroDivisionError"),
        Team() as team,
    ):
        patient = team.run("patient", [sys.executable, "-c", "input()"])
        team.run("broken", [sys.executable, "-c", "1 / 0"]).hear(60)
    assert patient.process.poll() is not None
    assert not team.folder.exists()


def test_a_silent_part_is_not_waited_for() -> None:
    with pytest.raises(PartFailed, match="said nothing for 0 s"), Team() as team:
        team.run("silent", [sys.executable, "-c", "input()"]).hear(0.1)
