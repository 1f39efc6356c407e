"""A `geoplex.toml` in the simulator: what is run, what is found, what the command says."""

import json
from pathlib import Path

import pytest

from epicast.cli import main
from epicast.core import ConfigError, EventBatch
from epicast.deployment import load_geoplex, parse_geoplex
from epicast.sim.geoplex_run import GeoplexOutcome, GeoplexRun

ROOT = Path(__file__).resolve().parents[2]
TROUBLE = ROOT / "scenarios/geoplex/trouble.toml"
SMALL = """
name = "small"
[regions.us]
proxy = "us:1"
data = "us"
[regions.eu]
proxy = "eu:1"
data = "eu"
[regions.ap]
proxy = "ap:1"
data = "ap"
[streams.prices]
owner = "us"
latest_per_key = true
[streams.audit]
owner = "eu"
[simulate]
duration = "3s"
drain = "10s"
agents = { us = 2, eu = 1, ap = 1 }
[[simulate.workload]]
stream = "prices"
rate = "500/s"
batch = 20
keys = 50
[[simulate.workload]]
stream = "audit"
region = "ap"
rate = "20/s"
batch = 2
keys = 0
"""


def run(text: str = "", seed: int | None = None, batch: int | None = None) -> GeoplexOutcome:
    return GeoplexRun(parse_geoplex(SMALL + text, "small.toml"), seed, batch=batch).run()


def fault(kind: str, **keys: object) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"kind": kind, **keys}.items()]
    return "\n".join(["[[simulate.faults]]", *lines, ""])


def test_everybody_gets_everything():
    outcome = run()
    assert outcome.passed
    assert outcome.published_events == outcome.acknowledged_events == 1500 + 60
    assert outcome.owed == 4 * 1560
    assert outcome.delivered_events + outcome.tombstoned_events == outcome.owed
    assert outcome.heads == {r: {"prices": 1500, "audit": 60} for r in ("us", "eu", "ap")}
    assert outcome.lost == outcome.out_of_order == outcome.restarts == 0


def test_a_seed_is_one_run_and_another_is_another():
    assert run(seed=5) == run(seed=5)
    assert run(seed=5).digest != run(seed=6).digest


def test_how_events_are_batched_changes_nothing_that_matters():
    one, many = run(batch=1), run()
    assert one.passed
    assert one.heads == many.heads
    assert one.messages > many.messages


def test_delays_are_those_of_the_links():
    text = '[[links]]\nfrom = "us"\nto = "{}"\nlatency = "200ms"\n'
    far = run(text.format("eu") + text.format("ap"))
    near = run()
    assert far.delay_ms["p95"] > near.delay_ms["p95"] + 100


def test_a_narrow_link_delays_what_has_to_pass_it():
    text = '[[links]]\nfrom = "us"\nto = "{}"\nlatency = "40ms"\nbandwidth = "32KB/s"\n'
    narrow = run(text.format("eu") + text.format("ap"))
    assert narrow.passed
    assert narrow.delay_ms["p95"] > run().delay_ms["p95"] + 100


def test_loss_on_a_link_shows_as_delay():
    text = '[[links]]\nfrom = "us"\nto = "{}"\nloss = "20%"\n'
    lossy = run(text.format("eu") + text.format("ap"))
    assert lossy.passed
    assert lossy.delay_ms["p95"] > run().delay_ms["p95"] + 100


@pytest.mark.parametrize(
    "text",
    [
        fault("cut", at="500ms", **{"for": "2s"}, between=["us", "ap"]),
        fault("cut", at="500ms", **{"for": "2s"}, between=["us", "ap"], one_way=True),
        fault("isolate", at="1s", **{"for": "4s"}, region="us"),
        fault("crash", at="1s", region="us", restart_after="2s"),
        fault("crash", at="1s", region="us", restart_after="2s", silently=True),
        fault("crash", at="1s", region="us", agents=2, restart_after="1s"),
        fault("pause", at="1s", region="eu", **{"for": "3s"}),
        fault("pause", at="1s", region="us", agents=1, **{"for": "1s"}),
    ],
    ids=["cut", "one way", "isolate", "crash", "silent", "agents", "pause", "pause agent"],
)
def test_whatever_goes_wrong_nothing_is_lost(text):
    outcome = run(text)
    assert outcome.passed, outcome.failures
    assert outcome.acknowledged_events == 1560


def test_an_isolated_region_does_get_nothing_meanwhile():
    """The faults are real: without time to recover, the same run fails."""
    text = SMALL.replace('drain = "10s"', 'drain = "1s"') + fault(
        "isolate", at="1s", **{"for": "5s"}, region="ap"
    )
    outcome = GeoplexRun(parse_geoplex(text, "small.toml")).run()
    assert not outcome.passed
    assert outcome.lost > 0
    assert outcome.delivery < 1
    assert any("have not arrived" in failure for failure in outcome.failures)


def test_a_full_disk_refuses_and_forgets_nothing():
    outcome = run(fault("disk_full", at="1s", region="us", **{"for": "1s"}))
    assert outcome.passed, outcome.failures
    assert outcome.refused_events > 0
    assert outcome.acknowledged_events + outcome.refused_events == 1560
    assert outcome.heads["ap"]["prices"] == 1500 - outcome.refused_events


def test_an_owner_that_loses_its_disk_loses_what_it_had_acknowledged():
    outcome = run(fault("crash", at="2s", region="us", restart_after="1s", lose_disk=True))
    assert not outcome.passed
    assert outcome.lost > 500
    assert outcome.restarts == 4
    assert outcome.out_of_order == 0


def test_what_is_not_what_was_published_is_found():
    geoplex = GeoplexRun(parse_geoplex(SMALL, "small.toml"))
    forge = geoplex.ledger.on_delivery

    def forged(now, node, number, batch):
        if batch.first > 100 and batch.rows == batch.last - batch.first + 1:
            payloads = [b"forged"] * batch.rows
            keys = batch.keys()
            batch = EventBatch.build(
                batch.stream, batch.first, payloads, keys=keys, epoch=batch.epoch
            )
        forge(now, node, number, batch)

    geoplex.ledger.on_delivery = forged
    outcome = geoplex.run()
    assert not outcome.passed
    assert any("is not what was published" in failure for failure in outcome.failures)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (fault("cut", at="1s", **{"for": "1s"}, between=["us", "uk"]), "no region 'uk'"),
        (fault("pause", at="9s", **{"for": "1s"}, region="us"), "after publishing has ended"),
        (fault("cut", at="1s", **{"for": "1s"}, between=["us", "us"]), "itself"),
        (
            fault("crash", at="1s", region="us", agents=1, restart_after="1s", lose_disk=True),
            "disk",
        ),
        (fault("explode", at="1s", region="us"), "explode"),
    ],
)
def test_faults_that_make_no_sense_are_refused_by_line(text, what):
    with pytest.raises(ConfigError, match=rf"small.toml:\d+: .*{what}"):
        GeoplexRun(parse_geoplex(SMALL + text, "small.toml"))


# -- the command ------------------------------------------------------------------------------


def test_the_command_runs_a_geoplex(capsys):
    assert main(["simulate", str(TROUBLE), "--json"]) == 0
    shown = capsys.readouterr()
    outcome = json.loads(shown.out)
    assert outcome["passed"]
    assert outcome["lost"] == 0
    assert outcome["published_events"] == outcome["acknowledged_events"] == 12600
    assert set(outcome["heads"]) == {"us", "eu", "ap"}
    assert "3 regions" in shown.err


def test_the_command_prints_a_table_and_the_line_that_repeats_a_failure(tmp_path, capsys):
    file = tmp_path / "small.toml"
    cut = fault("isolate", at="1s", **{"for": "9s"}, region="ap")
    file.write_text(SMALL.replace('drain = "10s"', 'drain = "1s"') + cut)
    assert main(["simulate", str(file), "--seed", "3"]) == 1
    shown = capsys.readouterr()
    assert "heads in ap" in shown.out
    assert f"repeat with: epicast simulate {file} --seed 3" in shown.err


def test_a_geoplex_that_is_wrong_starts_nothing(tmp_path, capsys):
    file = tmp_path / "small.toml"
    file.write_text(SMALL.replace('owner = "us"', 'owner = "uk"'))
    assert main(["simulate", str(file)]) == 2
    assert "there is no region 'uk'" in capsys.readouterr().err


def test_the_example_is_one_that_can_be_simulated():
    geoplex = GeoplexRun(load_geoplex(ROOT / "examples/geoplex.toml"))
    assert geoplex.describe() == "3 regions, 4 streams, 50 agents, 20 s"
