"""Documents: what fits is read whole, what does not is named by file, line, key and remedy."""

from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct, field

from epicast.core import ConfigError
from epicast.deployment import (
    SECOND,
    Bandwidth,
    Duration,
    Fraction,
    FractionRate,
    Frequency,
    Size,
    load_document,
    without_unit,
)


class Crash(Struct, tag="crash", tag_field="kind", forbid_unknown_fields=True):
    at: Duration
    share: Fraction = 0.1


class Cut(Struct, tag="cut", tag_field="kind"):
    at: Duration
    until: Annotated[Duration, Meta(ge=SECOND)] | None = None
    between: tuple[str, str] = ("a", "b")

    def __post_init__(self) -> None:
        if self.until is not None and self.until <= self.at:
            raise ConfigError("'until' must lie after 'at'")


class Percentiles(Struct):
    p50: Duration
    p95: Duration

    def __post_init__(self) -> None:
        if self.p95 < self.p50:
            raise ValueError("p95 lies below p50")


class Network(Struct, rename=without_unit):
    latency_ns: Duration | Percentiles = 0
    uplink_bytes_per_second: Bandwidth = 0
    loss: Fraction = 0.0
    mtu_bytes: Annotated[Size, Meta(ge=64, le=65_536)] = 1500


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Document(Struct):
    nodes: Annotated[int, Meta(ge=1, le=100_000)]
    network: Network = field(default_factory=Network)
    faults: list[Crash | Cut] = []
    regions: dict[str, Network] = {}
    rounds: Annotated[list[Duration], Meta(min_length=2)] = field(default_factory=list)
    name: str = ""
    mode: Literal["gossip", "tree"] = "tree"
    colour: Colour = Colour.RED
    ratio: Annotated[float, Meta(gt=0)] = 1.0
    verbose: bool = False
    rate: Frequency = 0.0
    churn: FractionRate = 0.0
    extra: Any = None
    day: date | None = None


def load(text: str) -> Document:
    return load_document(text, "wan.toml", Document)


def error(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return str(caught.value)


def test_a_whole_document() -> None:
    read = load(
        """
nodes = 512
mode = "gossip"
colour = "green"
ratio = 2
rounds = ["1s", "1.5 min"]
rate = "40/s"
churn = "3%/min"
extra = {anything = [1, "goes"]}

[network]
latency = {p50 = "125ms", p95 = "366ms"}
uplink = "1Gbps"
loss = "5%"
mtu = "9000B"

[[faults]]
kind = "crash"
at = "10s"
[[faults]]
kind = "cut"
at = "19s"
until = "41s"
between = ["eu", "us"]

[regions.eu]
latency = "1ms"
"""
    )
    assert read == Document(
        nodes=512,
        mode="gossip",
        colour=Colour.GREEN,
        ratio=2.0,
        rounds=[SECOND, 90 * SECOND],
        rate=40.0,
        churn=0.0005,
        extra={"anything": [1, "goes"]},
        network=Network(
            latency_ns=Percentiles(p50=125_000_000, p95=366_000_000),
            uplink_bytes_per_second=125_000_000,
            loss=0.05,
            mtu_bytes=9000,
        ),
        faults=[
            Crash(at=10 * SECOND),
            Cut(at=19 * SECOND, until=41 * SECOND, between=("eu", "us")),
        ],
        regions={"eu": Network(latency_ns=1_000_000)},
    )
    assert type(read.network.mtu_bytes) is int


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # keys
        ("nodes = 1\nnmae = 'x'", "wan.toml:2: nmae: unknown key; did you mean 'name'?"),
        (
            "nodes = 1\n\n[network]\nloss = 0\nbogus = 1",
            "wan.toml:5: network.bogus: unknown key; known keys: latency, uplink, loss, mtu",
        ),
        ("", "wan.toml: missing key 'nodes': expected an integer from 1 to 100000"),
        ("nodess = 5", "wan.toml:1: nodess: unknown key; did you mean 'nodes'?"),
        (
            "nodes = 1\n[[faults]]\nkind='crash'\nat='1s'\n[[faults]]\nkind='crash'",
            "wan.toml:5: faults[1]: missing key 'at': expected a duration such as '150ms'",
        ),
        (
            "nodes = 1\nnetwork.latency_ns = 5",
            "wan.toml:2: network.latency_ns: unknown key; did you mean 'latency'?",
        ),
        # types
        ("nodes = '5'", "wan.toml:1: nodes: expected an integer from 1 to 100000, found '5'"),
        ("nodes = 1.0", "wan.toml:1: nodes: expected an integer from 1 to 100000, found 1.0"),
        ("nodes = true", "wan.toml:1: nodes: expected an integer from 1 to 100000, found true"),
        ("nodes = [1]", "wan.toml:1: nodes: expected an integer from 1 to 100000, found an array"),
        ("nodes = 1\nname = 5", "wan.toml:2: name: expected text in quotes, found 5"),
        ("nodes = 1\nverbose = 1", "wan.toml:2: verbose: expected true or false, found 1"),
        ("nodes = 1\nnetwork = 1", "wan.toml:2: network: expected a table, found 1"),
        ("nodes = 1\nfaults = {}", "wan.toml:2: faults: expected an array, found a table"),
        (
            "nodes = 1\nname = 1979-05-27",
            "wan.toml:2: name: expected text in quotes, found the date 1979-05-27",
        ),
        (
            "nodes = 1\nmode = 'gosip'",
            "wan.toml:2: mode: expected one of 'gossip', 'tree', found 'gosip'; "
            "did you mean 'gossip'?",
        ),
        (
            "nodes = 1\ncolour = 'blue'",
            "wan.toml:2: colour: expected one of 'red', 'green', found 'blue'",
        ),
        (
            "nodes = 1\n[[faults]]\nkind = 'cut'\nat = '1s'\nbetween = ['a']",
            "wan.toml:5: faults[0].between: expected an array of 2 values, found 1",
        ),
        (
            "nodes = 1\n[[faults]]\nat = '1s'",
            "wan.toml:2: faults[0]: missing key 'kind': expected one of 'crash', 'cut'",
        ),
        (
            "nodes = 1\n[[faults]]\nkind = 'crsh'\nat = '1s'",
            "wan.toml:3: faults[0].kind: expected one of 'crash', 'cut', found 'crsh'; "
            "did you mean 'crash'?",
        ),
        ("nodes = 1\n\nday = 'x'", "wan.toml:3: day: Invalid RFC3339 encoded date"),
        # units
        (
            "nodes = 1\nrounds = ['1s',\n 5]",
            "wan.toml:3: rounds[1]: expected a duration such as '150ms', found 5: "
            "a number without a unit (ns, us, ms, s, min, h)",
        ),
        (
            "nodes = 1\n[regions.'eu west']\nlatency = '10Mbps'",
            "wan.toml:3: regions.\"eu west\".latency: expected a duration such as '150ms', "
            "found '10Mbps': the unit 'Mbps' is not one of ns, us, ms, s, min, h",
        ),
        # ranges
        ("nodes = 0", "wan.toml:1: nodes: expected an integer from 1 to 100000, found 0"),
        ("nodes = 1\nratio = 0", "wan.toml:2: ratio: expected a number above 0, found 0"),
        ("nodes = 1\nratio = nan", "wan.toml:2: ratio: expected a number above 0, found nan"),
        ("nodes = 1\nratio = inf", "wan.toml:2: ratio: expected a number above 0, found inf"),
        (
            "nodes = 1\nnetwork.mtu = '63B'",
            "wan.toml:2: network.mtu: expected a size from '64B' to '64KiB', found '63B'",
        ),
        (
            "nodes = 1\nrounds = ['1s']",
            "wan.toml:2: rounds: expected an array of at least 2 entries, found 1",
        ),
        # checks of the structs themselves
        (
            "nodes = 1\n[[faults]]\nkind='cut'\nat='5s'\nuntil='2s'",
            "wan.toml:2: faults[0]: 'until' must lie after 'at'",
        ),
        (
            "nodes = 1\n[regions.eu]\nlatency = {p50='2ms', p95='1ms'}",
            "wan.toml:3: regions.eu.latency: p95 lies below p50",
        ),
        # syntax
        ("nodes = 1\nx = [\n", "wan.toml:2: not valid TOML: Invalid value (at end of document)"),
        ("nodes = 1\nnodes = 2\n", "wan.toml:2:10: not valid TOML: Cannot overwrite a value"),
        ("nodes = 'a\n'", "wan.toml:1:11: not valid TOML"),
        ("x = " + "[" * 5000, "wan.toml: tables or arrays are nested too deeply"),
        ("nodes = " + "9" * 5000, "wan.toml: not valid TOML: "),
    ],
)
def test_one_problem(text: str, message: str) -> None:
    found = error(text)
    if "not valid TOML" in message:  # the rest is the parser's wording
        assert found.startswith(message.rsplit(": ", 1)[0])
        assert "\n" not in found
    else:
        assert found == message


def test_all_problems_in_the_order_of_the_lines() -> None:
    found = error("[network]\nloss = 7\nuplnk = '1Gbps'\n[[faults]]\nkind='crash'\nat = 1")
    assert [line.split(": ")[:2] for line in found.splitlines()] == [
        ["wan.toml", "missing key 'nodes'"],
        ["wan.toml:2", "network.loss"],
        ["wan.toml:3", "network.uplnk"],
        ["wan.toml:6", "faults[0].at"],
    ]


def test_the_list_of_problems_has_an_end() -> None:
    lines = error("nodes = 1\n" + "\n".join(f"zz{i} = 1" for i in range(50))).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "wan.toml: and 30 more problems"


def test_a_struct_that_allows_unknown_keys_is_read_strictly_all_the_same() -> None:
    class Lax(Struct, forbid_unknown_fields=False):
        a: int = 1

    with pytest.raises(ConfigError, match="b: unknown key"):
        load_document("b = 1", "x.toml", Lax)


VALID = """\
nodes = 512
rate = "40/s"
[network]
latency = "10ms"
loss = 0.1
[[faults]]
kind = "crash"
at = "10s"
"""


@given(
    st.integers(0, len(VALID) - 1),
    st.sampled_from(["", "x", "5", "'", '"', "[", "]", "=", "\n", ".", "%", "#", "é", "{"]),
    st.integers(0, 6),
)
def test_a_damaged_document_is_read_or_refused_with_its_name(at: int, junk: str, cut: int) -> None:
    text = VALID[:at] + junk + VALID[at + cut :]
    try:
        load(text)
    except ConfigError as problem:
        assert all(line.startswith("wan.toml:") for line in str(problem).splitlines())


@given(st.integers(0, 30), st.sampled_from(["bogus = 1", "nodes = 'x'", "ratio = 'y'"]))
def test_the_line_is_that_of_the_offending_key(blank: int, bad: str) -> None:
    nodes = "" if bad.startswith("nodes") else "nodes = 1\n"
    found = error("# note\n" * blank + nodes + bad)
    assert found.startswith(f"wan.toml:{blank + 1 + bool(nodes)}: {bad.partition(' ')[0]}: ")
