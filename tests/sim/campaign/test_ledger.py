"""The campaign counts up over its runs, whatever interrupts it."""

import json
from itertools import islice
from pathlib import Path

import pytest

from epicast.core import ConfigError
from epicast.sim.campaign.ledger import CampaignLedger, Tally, code_version
from epicast.sim.campaign.running import SeedResult, kind_of


def result(seed: int, failure: str = "") -> SeedResult:
    return SeedResult(seed, kind_of(seed), failure, simulated_s=3600.0, messages=10, core_s=0.5)


def next_seeds(ledger: CampaignLedger, count: int) -> list[int]:
    return list(islice(ledger.seeds_to_run(), count))


def test_it_goes_on_where_it_ended(tmp_path: Path):
    path = tmp_path / "campaign.json"
    ledger = CampaignLedger(path, "v1")
    assert next_seeds(ledger, 2) == [0, 1]
    for seed in (2, 0, 1):
        ledger.note(result(seed))
    ledger.save()
    again = CampaignLedger(path, "v1")
    assert next_seeds(again, 2) == [3, 4]
    again.note(result(3))
    assert again.of_this_version.seeds == 4
    assert again.of_this_version.told() == (
        "4 of 4 seeds clean: 4 geoplexes (2 streams, 2 chains) in 4.0 simulated hours, "
        "0 membership systems in 0.0; 40 messages"
    )


def test_seeds_that_were_left_out_come_first(tmp_path: Path):
    path = tmp_path / "campaign.json"
    old = CampaignLedger(path, "v1")
    for seed in (0, 1, 3):
        old.note(result(seed))
    old.save()
    new = CampaignLedger(path, "v2")
    for seed in (6, 7):
        new.note(result(seed))
    new.save()
    assert next_seeds(CampaignLedger(path, "v2"), 5) == [2, 4, 5, 8, 9]


def test_a_note_that_is_interrupted_leaves_the_seed_to_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "campaign.json"
    ledger = CampaignLedger(path, "v1")
    ledger.note(result(0))

    def interrupted(self: Tally, result: SeedResult) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Tally, "add", interrupted)
        ledger.note(result(1, "something"))
    ledger.save()
    assert next_seeds(CampaignLedger(path, "v1"), 1) == [1]


def test_kinds_are_counted_by_themselves(tmp_path: Path):
    path = tmp_path / "campaign.json"
    for version, seeds in (("v1", range(10)), ("v2", range(10, 20))):
        ledger = CampaignLedger(path, version)
        for seed in seeds:
            ledger.note(result(seed, "something" if seed in (1, 19) else ""))
        ledger.save()
    kinds = json.loads(path.read_text())["versions"]["v2"]["tally"]["kinds"]
    assert kinds == {
        "streams": {"clean": 5, "failed": 0, "simulated_s": 5 * 3600.0},
        "chains": {"clean": 4, "failed": 0, "simulated_s": 4 * 3600.0},
        "membership": {"clean": 0, "failed": 1, "simulated_s": 0.0},
    }
    assert CampaignLedger(path, "v3").of_all_versions().told() == (
        "18 of 20 seeds clean: 17 geoplexes (10 streams, 7 chains) in 17.0 simulated hours, "
        "1 membership systems in 1.0; 200 messages"
    )


def test_notes_from_before_kinds_were_counted_are_read(tmp_path: Path):
    path = tmp_path / "campaign.json"
    path.write_text('{"versions": {"v1": {"done": [[0, 4]], "tally": {"seeds": 5}}}}')
    ledger = CampaignLedger(path, "v2")
    ledger.note(result(5))
    assert "1 chains" in ledger.of_all_versions().told()
    assert ", 5 of kinds that were not noted; " in ledger.of_all_versions().told()


def test_a_seed_counts_once(tmp_path: Path):
    ledger = CampaignLedger(tmp_path / "campaign.json", "v1")
    ledger.note(result(5))
    ledger.note(result(5))
    assert ledger.of_this_version.seeds == 1


def test_another_version_is_counted_by_itself(tmp_path: Path):
    path = tmp_path / "campaign.json"
    old = CampaignLedger(path, "v1")
    old.note(result(0, "something"))
    old.note(result(1))
    old.save()
    new = CampaignLedger(path, "v2")
    assert next_seeds(new, 1) == [2]
    new.note(result(2))
    new.save()
    assert new.of_this_version.told().startswith("1 of 1 seeds clean")
    assert new.of_all_versions().told().startswith("2 of 3 seeds clean: 2 geoplexes")
    assert '"0": "something"' in path.read_text()


def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path):
    path = tmp_path / "campaign.json"
    path.write_text("[1, 2]")
    with pytest.raises(ConfigError, match="not the notes of a campaign"):
        CampaignLedger(path)
    assert path.read_text() == "[1, 2]"


def test_the_version_is_that_of_the_sources():
    assert code_version() == code_version()
    assert len(code_version()) == 16
