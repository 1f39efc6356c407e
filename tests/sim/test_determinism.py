"""Same seed, same run: in another process, under another hash seed, watched or not."""

import json
import os
import subprocess
import sys

import pytest

from epicast.core import Trace
from epicast.sim.runner import ScenarioRun
from epicast.sim.swarm import draw_scenario, run_seed

SAMPLE = (1037, 1048, 1050, 1071, 1075, 1128, 1144, 1158, 1169, 1241, 1258, 1272,
          1161, 1235, 1289, 1306)  # fmt: skip
IN_A_FRESH_PROCESS = """
import json, sys
from epicast.sim.swarm import run_seed
results = {seed: run_seed(seed) for seed in map(int, sys.argv[1:])}
json.dump({seed: [each.digest, each.messages] for seed, each in results.items()}, sys.stdout)
"""


def test_the_sample_covers_every_kind_of_run():
    drawn = [draw_scenario(seed).scenario for seed in SAMPLE]
    assert {tuple(each.stack) for each in drawn} == {
        ("hyparview", "flood"), ("hyparview", "gossip"), ("cyclon", "gossip"), ("lpbcast",),
        ("lpbcast", "gossip"), ("lpbcast", "pbcast"), ("cyclon", "lpbcast"), ("scamp", "gossip"),
        ("reinforcement", "gossip"),
    }  # fmt: skip
    assert {type(each.network.latency).__name__ for each in drawn} == {
        "ConstantDelay", "UniformDelay", "EptoDelay",
    }  # fmt: skip
    assert {fault.__class__.__name__ for each in drawn for fault in each.faults} == {
        "Crash", "CutLink", "Drift", "Leave", "Partition", "Pause", "Weather",
    }  # fmt: skip
    for part in (
        lambda each: each.churn,
        lambda each: each.service,
        lambda each: each.network.bandwidth,
    ):
        assert {part(each) is None for each in drawn} == {True, False}


@pytest.mark.parametrize("seeds", [SAMPLE[:4], SAMPLE[4:8], SAMPLE[8:12], SAMPLE[12:]], ids=str)
def test_a_fresh_process_with_another_hash_seed_gives_the_same_digests(seeds):
    here = {str(seed): run_seed(seed) for seed in seeds}
    other_seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    finished = subprocess.run(
        [sys.executable, "-c", IN_A_FRESH_PROCESS, *map(str, seeds)],
        env={**os.environ, "PYTHONHASHSEED": other_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    there = json.loads(finished.stdout)
    assert there == {seed: [each.digest, each.messages] for seed, each in here.items()}
    assert len({each.digest for each in here.values()}) == len(seeds)


def test_another_seed_of_the_same_scenario_is_another_run():
    loaded = draw_scenario(SAMPLE[0])
    digests = {seed: ScenarioRun(loaded, seed).run().digest for seed in (1, 2)}
    assert digests[1] != digests[2]
    assert ScenarioRun(loaded, 1).run().digest == digests[1]


def test_keeping_the_trace_does_not_change_its_digest():
    loaded = draw_scenario(SAMPLE[1])
    kept = ScenarioRun(loaded, trace=Trace(keep=True))
    outcome = kept.run()
    assert outcome.digest == run_seed(SAMPLE[1]).digest
    assert len(kept.trace.columns()["time"]) == kept.trace.rows_seen > 10_000


def test_looking_at_a_run_more_often_does_not_change_it():
    run = ScenarioRun(draw_scenario(SAMPLE[2]))
    run._schedule()
    for look in range(1, 38):
        run.simulation.run_until(run.scenario.duration_ns * look // 37)
    assert run.trace.digest() == run_seed(SAMPLE[2]).digest
