"""Nodes that come and go: at a rate, and as a trace says."""

from random import Random

import pytest

from epicast.core import ConfigError
from epicast.sim.churn import Churn, ChurnEvent, parse_churn_trace, schedule_churn, schedule_trace
from epicast.sim.faults import Injector
from tests.sim.probe import MS, SECOND, Lab, Probe


def churned(churn: Churn, nodes: int = 100, seed: int = 1) -> Lab:
    lab = Lab(nodes)
    schedule_churn(lab.sim, churn, lambda _: lab.sim.add_node(Probe), Random(seed))
    return lab


def alive(lab: Lab) -> list[int]:
    return [node.id for node in lab.sim.live_nodes()]


def test_a_share_of_the_nodes_is_replaced_per_time():
    churn = Churn(rate=0.2 / 60, from_ns=10 * SECOND, for_ns=120 * SECOND)
    lab = churned(churn)
    lab.run(10 * SECOND)
    assert alive(lab) == list(range(1, 101))
    counts = []
    for _ in range(12):
        before = len(lab.sim.nodes)
        lab.run(10 * SECOND)
        assert len(alive(lab)) == 100
        counts.append(len(lab.sim.nodes) - before)
    assert sum(counts) == 40  # a fifth of a hundred nodes a minute
    assert max(counts) < 15 and counts.count(0) < 4  # spread over the time
    lab.run(100 * SECOND)
    assert len(lab.sim.nodes) == 140


def test_a_fraction_of_a_departure_happens_sometimes():
    churn = Churn(rate=0.001, for_ns=SECOND)
    departures = []
    for seed in range(300):
        lab = churned(churn, 250, seed)
        lab.run(2 * SECOND)
        departures.append(len(lab.sim.nodes) - 250)
    assert set(departures) == {0, 1}
    assert sum(departures) / 300 == pytest.approx(0.25, abs=0.07)


def test_without_replacement_nodes_become_fewer_but_for_those_spared():
    churn = Churn(rate=10.0, for_ns=2 * SECOND, replace=False, spare=[3, 50])
    lab = churned(churn)
    lab.run(5 * SECOND)
    assert alive(lab) == [3, 50]


@pytest.mark.parametrize(("crashes", "goodbyes"), [(1.0, 0), (0.0, 30), (0.5, None)])
def test_some_say_goodbye(crashes, goodbyes):
    lab = churned(Churn(rate=0.01, for_ns=30 * SECOND, crashes=crashes, replace=False))
    probes = [lab[number] for number in range(1, 101)]
    lab.run(40 * SECOND)
    said = sum(("stop",) in probe.events() for probe in probes)
    assert len(alive(lab)) == 70
    assert said == goodbyes if goodbyes is not None else 5 < said < 25


def test_the_same_seed_takes_the_same_nodes():
    churn = Churn(rate=0.01, for_ns=30 * SECOND, replace=False)

    def survivors(seed: int) -> list[int]:
        lab = churned(churn, seed=seed)
        lab.run(40 * SECOND)
        return alive(lab)

    assert survivors(1) == survivors(1) != survivors(2)


# -- traces ---------------------------------------------------------------------------------------

TRACE = """
# time   action  node
20s      crash   2     # it comes back
5s       leave   1

25.5s    join    2
30s      join    9
30s      leave   9
30s      join    9
"""


def test_a_trace_is_a_line_per_event_in_order_of_time():
    assert parse_churn_trace(TRACE, "churn.txt", 3) == [
        ChurnEvent(5 * SECOND, "leave", 1),
        ChurnEvent(20 * SECOND, "crash", 2),
        ChurnEvent(25_500 * MS, "join", 2),
        ChurnEvent(30 * SECOND, "join", 9),
        ChurnEvent(30 * SECOND, "leave", 9),
        ChurnEvent(30 * SECOND, "join", 9),
    ]


def test_a_trace_is_followed():
    lab = Lab(3)
    injector = Injector(lab.sim, Random(1))

    def add(node: int | None) -> None:
        lab.sim.add_node(Probe, injector.contacts(node or 0), node)

    schedule_trace(lab.sim, parse_churn_trace(TRACE, "churn.txt", 3), add, injector)
    states = {}
    first = lab[1]
    for until in (4, 5, 20, 26, 31):
        lab.sim.run_until(until * SECOND)
        states[until] = alive(lab)
    assert states == {4: [1, 2, 3], 5: [2, 3], 20: [3], 26: [2, 3], 31: [2, 3, 9]}
    assert first.log[-1] == (5 * SECOND, "stop")
    assert lab[2].recovered.incarnation == 2
    assert [peer.id for peer in lab[2].contacts] == [3]
    assert lab[9].recovered.incarnation == 2  # joined, left and joined again, as written


@pytest.mark.parametrize(
    "line",
    [
        "12 crash 1",
        "12s crash",
        "12s crash 1 2",
        "12s burn 1",
        "12s crash one",
        "12s crash 0",
        "12s crash -4",
        "12s join 18446744073709551615",
        "-5s crash 1",
    ],
)
def test_a_bad_line_is_named(line):
    with pytest.raises(ConfigError) as bad:
        parse_churn_trace(f"1s join 1\n{line}\n", "churn.txt", 3)
    assert str(bad.value) == (
        "churn.txt, line 2: expected a time, join, leave or crash, and a node, "
        f"such as '12.5s crash 17'; found '{line}'"
    )


def test_a_node_that_can_never_be_there_is_named():
    with pytest.raises(ConfigError, match=r"line 2: node 17 never joins and is not one of 1..3"):
        parse_churn_trace("1s crash 3\n2s crash 17\n", "churn.txt", 3)
    parse_churn_trace("1s crash 3\n2s crash 17\n1s join 17", "churn.txt", 3)
