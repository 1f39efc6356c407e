"""Every experiment on gossip, run at smoke scale as `epicast experiment run --inline` does."""

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from epicast.experiments.executor import InlineExecutor
from epicast.experiments.model import Scale
from epicast.experiments.outputs import write_outputs
from epicast.experiments.registry import EXPERIMENTS, default_registry
from epicast.experiments.sweep import run_sweep

FAMILY = [
    name
    for name in EXPERIMENTS
    if name.startswith(("gossip-", "lpbcast-", "pbcast-")) or name == "peer-sampling"
]
TOLD = {
    # What the row of a claim says, among other things.
    "L1": ("residuals of the fits: log n", "rounds per doubling", "views of 8 to 16 change"),
    "L2": ("1.84e+17 rounds",),
    "L3": ("at l = 6", "at l = 24"),
    "L4": ("events per round sustained",),
    "L5": ("under failures", "without failures", "failures cost"),
    "L6": ("room for 7 ", "room for 27 ", "by Frequency", "by hearings"),
    "L7": ("in round 3", "in round 5", "in round 12", "rounds to 99%"),
    "L8": ("every 4th round", "four times"),
    "L9": ("views drawn uniformly: ±", "if uniform and held", "if gossiped"),
    "MEMORY": ("40 peers, 8 of which publish", "120 peers, 24 of which publish"),
}
RANGES: dict[str, dict[str, tuple[float, float]]] = {
    # Per experiment, columns and what no value of theirs lies outside of.
    "gossip-memory": {"bytes_per_peer": (10_000, 1_000_000), "delivered_per_peer": (30, 60)},
    "lpbcast-membership": {"aware": (0, 1), "rounds": (2, 12), "little_known_by_hearings": (0, 1)},
    "lpbcast-partition": {"chance": (0, 1)},
    "lpbcast-purging": {"delivery": (0.5, 1), "redundant": (0.2, 1)},
    "lpbcast-rounds": {"simulated": (0, 1), "simulated_rounds": (2, 10)},
    "lpbcast-views": {"reliability": (0.8, 1)},
    "pbcast-comparison": {"reliability": (0.6, 1)},
    "peer-sampling": {"largest_component": (0, 1), "dead_links": (0, 1)},
}


def test_the_family_is_known() -> None:
    assert set(FAMILY) == set(RANGES)
    claims = {claim for name in FAMILY for claim in default_registry().get(name).claim_ids}
    assert claims == set(TOLD)


@pytest.mark.parametrize("name", FAMILY)
def test_it_runs_and_judges(name: str, tmp_path: Path) -> None:
    experiment = default_registry().get(name)
    sweep = run_sweep(experiment, Scale.SMOKE, 1, tmp_path, InlineExecutor())
    assert not sweep.failures, sweep.failures[0].error
    write_outputs(sweep, tmp_path)
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert [claim["id"] for claim in claims] == list(experiment.claim_ids)
    for claim in claims:
        assert all(told in claim["ours"] for told in TOLD[claim["id"]]), claim["ours"]
        assert claim["detail"] and "nan" not in claim["ours"] + claim["detail"]
        verdict = claim["detail"].split(". ")[0]
        assert not (claim["holds"] and (": no" in verdict or "absent" in verdict)), claim
    rows = pq.read_table(tmp_path / "results.parquet")
    for column, (least, most) in RANGES[name].items():
        values = [value for value in rows.column(column).to_pylist() if value is not None]
        assert values and least <= min(values) and max(values) <= most, column
    assert len(list((tmp_path / "plots").glob("*.png"))) >= 1
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("protocol", ["hyparview", "cyclon", "lpbcast", "reinforcement", "scamp"])
def test_memberships_are_whole_before_failures_and_forget_the_dead(protocol: str) -> None:
    experiment = default_registry().get("peer-sampling")
    rows = experiment.run({"protocol": protocol, "failed": 0.3, "nodes": 40}, 1)
    assert not isinstance(rows, Mapping)
    before, struck, last = rows[0], rows[1], rows[-1]
    assert (before["alive"], struck["alive"], last["alive"]) == (40, 28, 28)
    assert before["largest_component"] == 1 and before["dead_links"] == 0
    assert float(last["dead_links"] or 0) < float(struck["dead_links"] or 0)
