"""What is said about scenario files that make no sense: file, line or key, expectation."""

import pytest

from epicast.core import ConfigError
from epicast.sim.scenario import load_scenario
from tests.sim.documents import BASE, load

NETWORK = BASE + "[network]\n"
WORKLOAD = BASE + "[[workload]]\n"
FAULT = BASE + '[[faults]]\nat = "1s"\n'
PERCENTILES = NETWORK + 'latency = { model = "percentiles", points = '


def problem(text: str, **files: str) -> str:
    with pytest.raises(ConfigError) as error:
        load(text, **files)
    return str(error.value)


KEYS = [
    (BASE + "colour = 3", ":5: colour: unknown key; known keys: name, description, seed, nodes"),
    (NETWORK + "los = 0.1", ":6: network.los: unknown key; did you mean 'loss'?"),
    (BASE + "[hyparview]\nactive_wiew = 5", ":6: hyparview.active_wiew: unknown key; did you mean"),
    (BASE.replace("nodes = 5\n", ""), ": missing key 'nodes': expected an integer from 1 to"),
    (FAULT + 'kind = "pause"\ncount = 1', ":5: faults[0]: missing key 'for': expected a duration"),
    (FAULT, ":5: faults[0]: missing key 'kind': expected one of 'crash', 'leave'"),
    (NETWORK + 'latency = { delay = "1ms" }', ":6: network.latency: missing key 'model'"),
    ("nodes = ", ":1: not valid TOML"),
]
UNITS = [
    (
        BASE.replace('"10s"', "10"),
        ":3: duration: expected a duration such as '150ms', found 10: a num",
    ),
    (
        BASE.replace('"10s"', '"10m"'),
        ":3: duration: expected a duration such as '150ms', found '10m': the unit 'm' is not one",
    ),
    (
        BASE + "[hyparview]\nshuffle_period = 5",
        ":6: hyparview.shuffle_period: expected a duration such as '150ms', found 5",
    ),
    (NETWORK + 'loss = "5"', ":6: network.loss: expected a fraction such as '5%' or a number"),
    (NETWORK + "loss = 20", "found 20: did you mean '20%'?"),
    (
        NETWORK + 'bandwidth = { up = "10Mb", down = "1Mbps" }',
        ":6: network.bandwidth.up: expected a bandwidth such as '10Mbps', found '10Mb'",
    ),
    (
        NETWORK + 'latency = { model = "constant", delay = "20" }',
        ":6: network.latency.delay: expected a duration such as '150ms', found '20'",
    ),
    (
        BASE + '[churn]\nrate = "3%"\nfor = "5s"',
        ":6: churn.rate: expected a fraction per time such as '3%/min', found '3%'",
    ),
    (WORKLOAD + "size = 100", ":6: workload[0].size: expected a size such as '64KiB', found 100"),
]
RANGES = [
    (BASE.replace('"10s"', '"0s"'), ":3: duration: expected a duration above '0ns', found '0s'"),
    (BASE.replace("nodes = 5", "nodes = 0"), ":2: nodes: expected an integer from 1 to 1000000"),
    (NETWORK + 'loss = "100%"', ":6: network.loss: expected a fraction below '100%'"),
    (
        FAULT + 'kind = "weather"\nfor = "1s"\nloss = 1.0',
        "faults[0].loss: expected a fraction below",
    ),
    (
        NETWORK + 'bandwidth = { up = "0bps", down = "1Mbps" }',
        ":6: network.bandwidth.up: expected a bandwidth of at least",
    ),
    (WORKLOAD + "count = 0", ":6: workload[0].count: expected an integer of at least 1, found 0"),
    (
        WORKLOAD + 'batch = 100000\nsize = "1MB"',
        ":5: workload[0]: 100000 events of this size are more than 1GiB in a batch",
    ),
    (
        NETWORK + 'latency = { model = "uniform", low = "5ms", high = "4ms" }',
        ":6: network.latency: latency: 5000000..4000000 ns is not an ascending range",
    ),
]
CHOICES = [
    (
        BASE.replace('"flood"', '"floof"'),
        ":4: stack[1]: expected one of 'cyclon', 'epto', 'flood', 'gossip', 'hyparview', 'lpbcast'",
    ),
    (
        BASE.replace('"hyparview", "flood"', '"flood", "hyparview"'),
        "stack: the bottom layer is one of ['hyparview', 'cyclon', ",
    ),
    (BASE.replace('"hyparview"', '"cyclon"'), "stack: flood needs stable, symmetric neighbours"),
    (
        BASE.replace('"flood"', '"flood", "gossip"'),
        "stack: one of ['flood', 'gossip', 'lpbcast'",
    ),
    (BASE + "[gossip]\nfanout = 3", "gossip: has no effect, it is not in the stack ['hyparview', "),
    (
        WORKLOAD.replace(', "flood"', ""),
        "workload: nothing in the stack ['hyparview'] publishes; add flood or gossip or lpbcast or",
    ),
    (
        NETWORK + 'latency = { model = "gauss" }',
        ":6: network.latency.model: expected one of 'const",
    ),
    (FAULT + 'kind = "crahs"', ":7: faults[0].kind: expected one of 'crash'"),
    (FAULT + 'kind = "crash"', ":5: faults[0]: give exactly one of nodes, count and share"),
]
PERCENTILE_POINTS = [
    (PERCENTILES + '{ p5 = "5ms", x = "6ms" } }', "points: 'x' is not another percentile such as"),
    (PERCENTILES + '{ p5 = "5ms", "p²" = "6ms" } }', "points: 'p²' is not another percentile"),
    (PERCENTILES + '{ p5 = "5ms", "p5.0" = "6ms" } }', "points: 'p5.0' is not another percentile"),
    (
        PERCENTILES + '{ p5 = "9ms", p95 = "6ms" } }',
        "a higher percentile cannot have a lower delay",
    ),
    (PERCENTILES + '{ p5 = "9ms", p101 = "10ms" } }', "percentiles lie between p0 and p100"),
    (PERCENTILES + '{ p5 = "9ms" } }', "at least two percentiles are needed"),
    (
        PERCENTILES + '{ p5 = "1ms", p95 = "6ms" }, mean = "2ms" }',
        "mean and sd are given together or not at all",
    ),
    (
        PERCENTILES + '{ p5 = "1ms", p95 = "6ms" }, mean = "20s", sd = "1ms" }',
        "no distribution with these percentiles has that mean and sd",
    ),
]
NODES = [
    (WORKLOAD + "publishers = [1, 6]", "workload[0].publishers: node 6 is not one of 1..5"),
    (FAULT + 'kind = "crash"\nnodes = [7]', "faults[0].nodes: node 7 is not one of 1..5"),
    (FAULT + 'kind = "leave"\nnodes = [0]', "faults[0].nodes: node 0 is not one of 1..5"),
    (
        FAULT + 'kind = "cut"\nfor = "1s"\nbetween = [1, 9]',
        "faults[0].between: node 9 is not one of 1..5",
    ),
    (
        BASE + '[churn]\nrate = "3%/min"\nfor = "5s"\nspare = [9]',
        "churn.spare: node 9 is not one of 1..5",
    ),
]
TIMES = [
    (BASE + 'join_every = "3s"', "nodes: the last of 5 joins at 12s, but the run ends after 10s"),
    (
        WORKLOAD + 'from = "5s"\ncount = 11\nevery = "500ms"',
        "workload[0]: the last batch comes at 10s, but the run ends after 10s",
    ),
    (
        BASE + '[[faults]]\nkind = "crash"\nat = "1min"\ncount = 1',
        "faults[0].at: it comes at 1min, but the run ends after 10s",
    ),
    (
        BASE + '[churn]\nrate = "3%/min"\nfrom = "11s"\nfor = "5s"',
        "churn.from: it begins at 11s, but the run ends after 10s",
    ),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [*KEYS, *UNITS, *RANGES, *CHOICES, *PERCENTILE_POINTS, *NODES, *TIMES],
)
def test_the_message_names_file_key_and_expectation(text, expected):
    message = problem(text)
    assert message.startswith("x/small.toml:")
    assert expected in message


@pytest.mark.parametrize(("text", "expected"), PERCENTILE_POINTS)
def test_latency_that_cannot_be_drawn_is_found_at_its_line(text, expected):
    assert problem(text).startswith("x/small.toml:6: network.latency: ")


def test_every_problem_is_told_at_once():
    message = problem('name = "x"\nnodes = "many"\nduration = 5\nstack = ["flod"]\n')
    places = [line.split(": ")[0] for line in message.splitlines()]
    assert places == ["x/small.toml:2", "x/small.toml:3", "x/small.toml:4"]


MATRIX = NETWORK + 'latency = { model = "matrix", file = "sites.txt" }'
CHURN = BASE + 'churn_trace = "trace.txt"'
FILES = [
    (MATRIX, {}, "network.latency.file: x/sites.txt: cannot be read: No such file or directory"),
    (
        MATRIX,
        {"sites.txt": "0 1\n1 5ms"},
        "network.latency.file: x/sites.txt, line 2: expected delays in milliseconds, such as "
        "'15 72.5'; found '1 5ms'",
    ),
    (
        MATRIX,
        {"sites.txt": "0 1"},
        "network.latency.file: x/sites.txt: 1 lines do not make a square table",
    ),
    (CHURN, {}, "churn_trace: x/trace.txt: cannot be read: No such file or directory"),
    (
        CHURN,
        {"trace.txt": "5 crash 1"},
        "churn_trace: x/trace.txt, line 1: expected a time, join, leave or crash, and a node, such "
        "as '12.5s crash 17'; found '5 crash 1'",
    ),
    (
        CHURN,
        {"trace.txt": "5s crash 6"},
        "churn_trace: x/trace.txt, line 1: node 6 never joins and is not one of 1..5",
    ),
]


@pytest.mark.parametrize(("text", "files", "expected"), FILES)
def test_files_a_scenario_names_are_checked_with_it(text, files, expected):
    assert problem(text, **files) == f"x/small.toml: {expected}"


def test_files_that_cannot_be_read(tmp_path):
    binary, zero = tmp_path / "binary.toml", tmp_path / "zero.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    zero.write_text(BASE + 'churn_trace = "a\\u0000b"')
    for path, reason in [
        (tmp_path / "missing.toml", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (binary, "cannot be read: not UTF-8 text"),
        (zero, "cannot be read: embedded null byte"),
    ]:
        with pytest.raises(ConfigError, match=reason) as error:
            load_scenario(path)
        assert str(error.value).startswith(str(path))
