"""`epicast swarm` as people use it."""

import json
from pathlib import Path

import pytest

from epicast.cli import main
from epicast.core import EventBatch
from epicast.sim.campaign.oracles import Oracles
from epicast.sim.campaign.truth import Broken


def test_a_campaign_counts_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    state = tmp_path / "campaign.json"
    for total in (2, 4):
        assert main(["swarm", "--seeds", "2", "--jobs", "1", "--state", str(state)]) == 0
        said = capsys.readouterr().err
        assert "2 of 2 seeds clean" in said
        assert f"all versions: {total} of {total} seeds clean" in said
    notes = json.loads(state.read_text())
    assert [notes["done"] for notes in notes["versions"].values()] == [[[0, 3]]]


def test_time_is_a_limit(capsys: pytest.CaptureFixture[str]):
    assert main(["swarm", "--minutes", "0", "--jobs", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seeds"] == 1


@pytest.mark.parametrize("first", ["1", "8"], ids=["chains", "streams"])
def test_a_failure_is_repeated_by_the_line_it_prints(
    first: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    honest = Oracles.on_publish

    def suspicious(self: Oracles, publisher: int, batch: EventBatch) -> None:
        honest(self, publisher, batch)
        if self.published > 20:
            raise Broken(f"{self.published} published, {self.delivered} delivered")

    monkeypatch.setattr(Oracles, "on_publish", suspicious)
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
