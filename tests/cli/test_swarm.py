"""`epicast swarm` as people use it."""

import json
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from epicast.cli import main
from epicast.core import EventBatch
from epicast.sim.campaign import running
from epicast.sim.campaign.oracles import Oracles
from epicast.sim.campaign.running import SeedResult, kind_of, run_seed, run_seeds
from epicast.sim.campaign.truth import Broken


def done(state: Path) -> list[list[int]]:
    (notes,) = json.loads(state.read_text())["versions"].values()
    return notes["done"]


def test_a_campaign_counts_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    state = tmp_path / "campaign.json"
    for total in (2, 4):
        assert main(["swarm", "--seeds", "2", "--jobs", "1", "--state", str(state)]) == 0
        said = capsys.readouterr().err
        assert "2 of 2 seeds clean" in said
        assert f"all versions: {total} of {total} seeds clean" in said
    assert done(state) == [[0, 3]]


def test_the_last_line_says_what_was_clean(capsys: pytest.CaptureFixture[str]):
    assert main(["swarm", "--first", "8", "--seeds", "4", "--jobs", "1", "--json"]) == 0
    written = capsys.readouterr()
    assert written.err.splitlines()[-1].startswith(
        "4 of 4 seeds clean: 3 geoplexes (2 streams, 1 chains) in 0.0 simulated hours, "
        "1 membership systems in 0.0; "
    )
    told = json.loads(written.out)
    geoplexes, membership = told["geoplexes"], told["membership"]
    assert (geoplexes["clean"], geoplexes["streams"], geoplexes["chains"]) == (3, 2, 1)
    assert membership["clean"] == 1
    assert 0 < geoplexes["simulated_hours"] < membership["simulated_hours"]
    hours = geoplexes["simulated_hours"] + membership["simulated_hours"]
    assert hours == pytest.approx(told["simulated_hours"])


def test_time_is_a_limit(capsys: pytest.CaptureFixture[str]):
    assert main(["swarm", "--minutes", "0", "--jobs", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seeds"] == 1


def take_long_for_odd_ones(seed: int) -> SeedResult:
    time.sleep(seed % 2)
    return SeedResult(seed, kind_of(seed), failure="odd" if seed % 2 else "")


def test_what_runs_when_time_is_up_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    state = tmp_path / "campaign.json"
    slow = partial(run_seeds, run=take_long_for_odd_ones)
    monkeypatch.setattr(running, "run_seeds", slow)
    assert main(["swarm", "--minutes", "0", "--jobs", "2", "--state", str(state)]) == 1
    assert "seed 1: odd" in capsys.readouterr().err
    assert done(state) == [[0, 1]]


def test_what_ctrl_c_interrupts_is_run_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def interrupted(seeds: Iterable[int], jobs: int, **_: Any) -> Iterator[SeedResult]:
        assert jobs == 2
        chosen = list(seeds)
        try:
            for at in (1, 0, 3):
                yield SeedResult(chosen[at], kind_of(chosen[at]))
            raise KeyboardInterrupt
        finally:
            runs.append(chosen)

    runs: list[list[int]] = []
    state = tmp_path / "campaign.json"
    monkeypatch.setattr(running, "run_seeds", interrupted)
    for _ in range(2):
        call = ["swarm", "--seeds", "5", "--jobs", "2", "--state", str(state)]
        assert main(call) == 130
        said = capsys.readouterr().err
        assert "3 of 3 seeds clean" in said
        assert "what was running is not counted" in said
    assert runs == [[0, 1, 2, 3, 4], [2, 4, 5, 6, 7]]
    assert done(state) == [[0, 4], [6, 6]]


def run_suspiciously(seed: int) -> SeedResult:
    """In a process of its own, which knows nothing of what a test has patched."""
    with pytest.MonkeyPatch.context() as patched:
        suspect(patched)
        return run_seed(seed)


def suspect(patched: pytest.MonkeyPatch) -> None:
    honest = Oracles.on_publish

    def suspicious(self: Oracles, publisher: int, batch: EventBatch, **more: bool) -> None:
        honest(self, publisher, batch, **more)
        if self.published > 20:
            raise Broken(f"{self.published} published, {self.delivered} delivered")

    patched.setattr(Oracles, "on_publish", suspicious)


@pytest.mark.parametrize("first", ["1", "8"], ids=["chains", "streams"])
def test_a_failure_is_repeated_by_the_line_it_prints(
    first: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    suspect(monkeypatch)
    monkeypatch.setattr(running, "run_seeds", partial(run_seeds, run=run_suspiciously))
    assert main(["swarm", "--first", first, "--jobs", "1", "--stop", "--json"]) == 1
    (failed,) = json.loads(capsys.readouterr().out)["failed"]
    what, line = failed["failure"].rsplit("\nrepeat with: epicast ", 1)
    assert " published, " in what
    assert main(line.split()) == 1
    assert what in capsys.readouterr().err
    assert main([*line.split(), "--explain"]) == 1
    said = capsys.readouterr().err
    assert what in said
    assert "fault 1: " in said
    shorter = said.rsplit("fails with fewer faults, too: epicast ", 1)[1]
    assert "--without 1" in shorter
    assert main(shorter.split()) == 1


def test_faults_can_be_left_out(capsys: pytest.CaptureFixture[str]):
    assert main(["swarm", "--seed", "16", "--without", "1,2"]) == 0
    assert main(["swarm", "--seed", "16", "--without", "x"]) == 2
    assert "expected numbers of faults" in capsys.readouterr().err


def test_unknown_bugs_are_not_planted(capsys: pytest.CaptureFixture[str]):
    assert main(["swarm", "--planted", "--only", "nonsense"]) != 0
    assert "no planted bug nonsense; there are ack-early" in capsys.readouterr().err
