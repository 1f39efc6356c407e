"""The campaign counts up over its runs, whatever interrupts it."""

from pathlib import Path

import pytest

from epicast.core import ConfigError
from epicast.sim.campaign.ledger import CampaignLedger, code_version
from epicast.sim.campaign.running import SeedResult


def result(seed: int, failure: str = "") -> SeedResult:
    return SeedResult(seed, "streams", failure, simulated_s=3600.0, messages=10, core_s=0.5)


def test_it_goes_on_where_it_ended(tmp_path: Path):
    path = tmp_path / "campaign.json"
    ledger = CampaignLedger(path, "v1")
    assert ledger.next_seed == 0
    for seed in (2, 0, 1):
        ledger.note(result(seed))
    ledger.save()
    again = CampaignLedger(path, "v1")
    assert again.next_seed == 3
    again.note(result(3))
    assert again.of_this_version.seeds == 4
    assert again.of_this_version.told().startswith("4 of 4 seeds clean, 4.0 simulated hours")


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
    assert new.next_seed == 2
    new.note(result(2))
    new.save()
    assert new.of_this_version.told().startswith("1 of 1 seeds clean")
    assert new.of_all_versions().told().startswith("2 of 3 seeds clean, 3.0 simulated hours")
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
