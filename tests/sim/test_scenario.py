"""Scenario files: what their keys mean, and how a run is judged."""

import json
import shlex
from pathlib import Path

import msgspec
import pytest

from epicast.cli import main
from epicast.core import Trace, TraceKind
from epicast.sim.network import Conditions
from epicast.sim.runner import ScenarioRun, describe
from epicast.sim.scenario import LoadedScenario, load_scenario
from epicast.sim.service import Service
from tests.sim.documents import BASE, load
from tests.sim.probe import MS, SECOND

SCENARIOS = sorted(Path("scenarios").resolve().parent.glob("scenarios/*.toml"))
# -- the examples ---------------------------------------------------------------------------------


def shortened(loaded: LoadedScenario) -> LoadedScenario:
    """Everything five times as fast and less of it: to see that it runs, not what comes out."""
    scenario = loaded.scenario
    replace = msgspec.structs.replace
    workload = [
        replace(
            each,
            from_ns=each.from_ns // 5,
            every_ns=each.every_ns // 5,
            count=max(1, each.count // 5),
            expect_delivery=None,
        )
        for each in scenario.workload
    ]
    faults = []
    for fault in scenario.faults:
        changed = {"at_ns": fault.at_ns // 5}
        if getattr(fault, "for_ns", None) is not None:
            changed["for_ns"] = fault.for_ns // 5
        faults.append(replace(fault, **changed))
    churn = scenario.churn
    if churn is not None:
        churn = replace(churn, from_ns=churn.from_ns // 5, for_ns=churn.for_ns // 5)
    short = replace(
        scenario, duration_ns=scenario.duration_ns // 5, workload=workload, faults=faults,
        churn=churn, expect=replace(scenario.expect, delivery=0.3, connected=False),
    )  # fmt: skip
    trace = [event._replace(at_ns=event.at_ns // 5) for event in loaded.trace]
    return replace(loaded, scenario=short, trace=trace)


def test_there_are_examples():
    assert {path.stem for path in SCENARIOS} >= {"calm", "churn-trace", "trouble", "wide-area"}


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_example_loads_and_runs(path):
    loaded = load_scenario(path)
    assert loaded.scenario.name == path.stem
    assert describe(loaded.scenario).startswith(f"{loaded.scenario.nodes} nodes, ")
    told = []
    outcome = ScenarioRun(shortened(loaded)).run(lambda share, word: told.append((share, word)))
    assert outcome.failures == []
    assert outcome.published_events > 0
    assert outcome.delivered_events > outcome.published_events
    assert len(told) == 100 and told[-1][0] == 1.0


# -- what keys mean -------------------------------------------------------------------------------


def test_sections_reach_the_simulation():
    loaded = load(
        BASE
        + """
        disk_sync = "3ms"
        [hyparview]
        active_view = 3
        shuffle_period = "7s"
        [network]
        latency = { model = "matrix", file = "sites.txt" }
        loss = "1%"
        duplication = 0.02
        reordering = "3%"
        bandwidth = { up = "8Mbps", down = "2MB/s", queue = "1KiB" }
        [service]
        per_message = "20us"
        per_kilobyte = "3us"
        """,
        **{"sites.txt": "0 5\n7 0"},
    )
    run = ScenarioRun(loaded)
    sim = run.simulation
    assert sim.network.latency.draw(1, (2,)) == [7 * MS]
    assert sim.network.conditions == Conditions(loss=0.01, duplication=0.02, reordering=0.03)
    assert sim.processor._service == Service(20_000, 3.0)
    run.run()
    node = sim.nodes[1]
    assert (node.interface.bandwidth.up, node.interface.bandwidth.down) == (1_000_000, 2_000_000)
    assert node.interface.bandwidth.queue_bytes == 1024
    assert node.disk.sync_ns == 3 * MS
    assert node.protocol.layers[0].config.shuffle_period_ns == 7 * SECOND
    assert node.protocol.layers[0].config.active_view == 3


@pytest.mark.parametrize(
    ("latency", "expected"),
    [
        ('{ model = "constant", delay = "3ms" }', {3 * MS}),
        ('{ model = "uniform", low = "3ms", high = "3ms" }', {3 * MS}),
        ('{ model = "percentiles", points = { p0 = "3ms", p100 = "3ms" } }', {3 * MS}),
    ],
)
def test_latency_models(latency, expected):
    loaded = load(BASE + f"[network]\nlatency = {latency}")
    assert set(loaded.latency(1).draw(1, range(2, 50))) == expected


def test_nodes_join_one_after_the_other_and_workloads_follow_their_plan():
    loaded = load(
        BASE
        + """
        join_every = "200ms"
        [[workload]]
        from = "4s"
        count = 4
        every = "500ms"
        batch = 3
        size = "20B"
        publishers = [2, 4]
        """
    )
    trace = Trace()
    outcome = ScenarioRun(loaded, trace=trace).run()
    rows = trace.to_arrow().to_pylist()
    starts = [(row["time"], row["node"]) for row in rows if row["kind"] == "start"]
    assert starts == [(200 * MS * index, index + 1) for index in range(5)]
    published = [
        (row["time"], row["node"], row["first"], row["last"], row["bytes"])
        for row in rows
        if row["kind"] == "publish"
    ]
    assert published == [
        (4000 * MS, 2, 1, 3, 60),
        (4500 * MS, 4, 1, 3, 60),
        (5000 * MS, 2, 4, 6, 60),
        (5500 * MS, 4, 4, 6, 60),
    ]
    assert outcome.published_events == 12
    assert outcome.delivered_events == 60
    assert outcome.delivery == 1.0 and outcome.passed and outcome.connected


@pytest.mark.parametrize("size", [1, 2, 100])
def test_the_largest_batch_can_be_limited_without_changing_what_is_published(size):
    loaded = load(BASE + '[[workload]]\nfrom = "5s"\nbatch = 5\npublishers = [1]')
    trace = Trace()
    run = ScenarioRun(loaded, trace=trace, batch=size)
    outcome = run.run()
    kinds = trace.columns()["kind"].tolist()
    assert kinds.count(TraceKind.PUBLISH) == {1: 5, 2: 3, 100: 1}[size]
    assert (outcome.published_events, outcome.delivered_events) == (5, 25)
    assert run.replay_line() == f"epicast simulate x/small.toml --seed 1 --batch {size}"


@pytest.mark.parametrize(("trace", "newest"), [("", 5), ("9s join 30", 30)])
def test_replacements_do_not_take_the_ids_of_nodes_yet_to_join(trace, newest):
    loaded = load(
        BASE
        + """
        churn_trace = "trace.txt"
        join_every = "1s"
        [churn]
        rate = "100%/s"
        from = "0s"
        for = "2s"
        """,
        **{"trace.txt": trace},
    )
    run = ScenarioRun(loaded)
    run.run()
    # Two departures: in 2 s, of the one node there is at the beginning.
    expected = {*range(1, 6), newest, newest + 1, newest + 2}
    assert set(run.simulation.nodes) == expected


def test_who_stands_still_publishes_nothing():
    loaded = load(
        BASE
        + """
        [[workload]]
        from = "4s"
        count = 50
        every = "100ms"
        [[workload]]
        from = "5s"
        publishers = [3]
        [[faults]]
        kind = "pause"
        at = "3s"
        for = "6s"
        nodes = [1, 2, 3]
        """
    )
    run = ScenarioRun(loaded)
    outcome = run.run()
    assert {each.batch.stream for each in run.ledger.published} == {4, 5}
    assert outcome.published_events == 50


# -- verdicts -------------------------------------------------------------------------------------


def test_broken_expectations_are_listed():
    loaded = load(
        BASE
        + """
        [expect]
        delivery = "95%"
        [[workload]]
        from = "2s"
        publishers = [1]
        [[workload]]
        from = "5s"
        publishers = [1]
        expect_delivery = "90%"
        [[faults]]
        kind = "partition"
        at = "4s"
        for = "30s"
        share = "40%"
        """
    )
    outcome = ScenarioRun(loaded).run()
    assert not outcome.passed
    assert len(outcome.failures) == 3
    assert outcome.failures[0].startswith("delivery 70.0000% is below the expected 95") or (
        outcome.failures[0].startswith("delivery 80.0000% is below the expected 95")
    )
    assert outcome.failures[1].startswith("workload[1]: delivery ")
    assert outcome.failures[2].startswith("the overlay is split: its largest part has 3 of 5")


# -- the command ----------------------------------------------------------------------------------


def test_the_line_that_is_printed_repeats_a_failed_run(tmp_path, capsys):
    path = tmp_path / "a b.toml"
    path.write_text(
        BASE + '[[workload]]\nfrom = "5s"\n[[faults]]\nkind = "partition"\nat = "4s"\nfor = "9s"'
    )

    def simulate(*arguments: str) -> tuple[dict[str, object], str]:
        assert main(["simulate", *arguments, "--json"]) == 1
        out, err = capsys.readouterr()
        return json.loads(out), err

    first, said = simulate(str(path), "--seed", "3")
    (line,) = [line for line in said.splitlines() if line.startswith("repeat with: ")]
    words = shlex.split(line.removeprefix("repeat with: "))
    assert words == ["epicast", "simulate", str(path), "--seed", "3"]
    assert simulate(*words[2:])[0] == first
    assert simulate(str(path), "--seed", "4")[0]["digest"] != first["digest"]


def test_bad_input_exits_with_2_and_nothing_starts(tmp_path, capsys):
    path = tmp_path / "bad.toml"
    path.write_text(BASE + "[network]\nlatency = 20")
    assert main(["simulate", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"epicast: {path}:6: network.latency: expected a table")
