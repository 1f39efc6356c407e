"""The geoplex file: what it means, and what it is refused for."""

from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from epicast.core import ConfigError, Peer
from epicast.deployment import (
    MILLISECOND,
    SECOND,
    Address,
    Duration,
    Geoplex,
    SimulateSection,
    StreamWorkload,
    UnknownRegion,
    UnknownStream,
    document,
    embedded_geoplex,
    embedded_text,
    load_geoplex,
    node_id_of,
    parse_geoplex,
    stream_id,
    without_unit,
)
from epicast.log.config import MAX_KEY_BYTES, LogConfig
from epicast.log.policy import GcPolicy
from epicast.runtime.limits import Limits

BASE = """\
name = "shop"
[regions.us]
proxy = "10.0.0.1:7400"
data = "us"
[regions.eu]
proxy = "10.0.0.2:7400"
[regions.ap]
proxy = "10.0.0.3:7400"
[streams.prices]
owner = "us"
"""
"""Ten lines; only us has a disk."""


def parse(text: str) -> Geoplex:
    return parse_geoplex(text, "g.toml")


def error(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


# -- what it means --------------------------------------------------------------------------------


def test_regions_and_their_addresses() -> None:
    geoplex = parse(
        """
        name = "shop"
        [regions.us]
        proxy = "0.0.0.0:7400"
        advertise = "Proxy.US.example:17400"
        [regions.eu]
        replicas = ["[::1]:7401"]
        """
    )
    us, eu = geoplex.regions.values()
    assert (us.name, us.listen, us.data) == ("us", ("0.0.0.0", 7400), None)
    assert us.peer == Peer(node_id_of("us"), "proxy.us.example", 17400)
    assert eu.listen == eu.address == Address("::1", 7401)
    assert str(eu.address) == "[::1]:7401"
    assert geoplex.region_by_id(eu.id) is eu
    assert geoplex.region_by_id(1) is None


def test_stream_settings_fit_the_log() -> None:
    stream = parse(
        BASE
        + """
        description = "now"
        ack = "interval"
        sync_interval = "20ms"
        latest_per_key = true
        last_n = 5
        max_age = "2s"
        retain_size = "1GB"
        retain_age = "3h"
        max_key = "64B"
        """
    ).stream("prices")
    assert (stream.id, stream.owner, stream.description) == (stream_id("prices"), "us", "now")
    policy = GcPolicy(
        latest_per_key=stream.latest_per_key, last_n=stream.last_n, max_age_ns=stream.max_age_ns
    )
    assert policy == GcPolicy(latest_per_key=True, last_n=5, max_age_ns=2 * SECOND)
    config = LogConfig(
        sync=stream.ack,
        sync_interval_ns=stream.sync_interval_ns,
        retain_bytes=stream.retain_bytes,
        retain_ns=stream.retain_ns,
        max_key_bytes=stream.max_key_bytes,
    )
    assert config == LogConfig(
        sync="interval",
        sync_interval_ns=20 * MILLISECOND,
        retain_bytes=10**9,
        retain_ns=3 * 3600 * SECOND,
        max_key_bytes=64,
    )


def test_a_stream_left_to_itself_has_the_defaults_of_the_log() -> None:
    stream = parse(BASE).stream("prices")
    log = LogConfig()
    assert (stream.ack, stream.sync_interval_ns) == (log.sync, log.sync_interval_ns)
    assert (stream.retain_bytes, stream.retain_ns) == (log.retain_bytes, log.retain_ns)
    assert stream.max_key_bytes == log.max_key_bytes
    assert document.StreamSection(owner="us", max_key_bytes=MAX_KEY_BYTES)
    assert "from '1B' to '65535B'" in error(BASE + f"max_key = '{MAX_KEY_BYTES + 1}B'")


def test_acknowledged_where_the_owner_can() -> None:
    geoplex = parse(BASE + "[streams.clicks]\nowner = 'eu'")
    assert geoplex.stream("prices").ack == "disk"
    assert geoplex.stream("clicks").ack == "memory"
    assert [stream.name for stream in geoplex.streams_of("eu")] == ["clicks"]
    assert geoplex.stream_by_id(stream_id("clicks")) is geoplex.stream("clicks")
    assert geoplex.stream_by_id(0) is None


def test_links_apply_both_ways_except_for_the_relay() -> None:
    geoplex = parse(
        BASE
        + """
        [[links]]
        from = "us"
        to = "eu"
        latency = "3ms"
        loss = "1%"
        bandwidth = "8Mbps"
        via = "localhost:9001"
        [[links]]
        from = "eu"
        to = "us"
        loss = 0
        via = "localhost:9002"
        [[links]]
        from = "us"
        to = "ap"
        via = "localhost:9003"
        """
    )
    there, back = geoplex.link("us", "eu"), geoplex.link("eu", "us")
    assert (there.latency_ns, there.loss) == (3 * MILLISECOND, 0.01)
    assert (back.latency_ns, back.loss) == (3 * MILLISECOND, 0)
    assert there.bandwidth_bytes_per_second == back.bandwidth_bytes_per_second == 1_000_000
    assert geoplex.link("ap", "eu").latency_ns == 40 * MILLISECOND
    assert geoplex.peers("us") == [
        Peer(node_id_of("eu"), "localhost", 9001),
        Peer(node_id_of("ap"), "localhost", 9003),
    ]
    assert geoplex.peer("us", source="eu") == Peer(node_id_of("us"), "localhost", 9002)
    assert geoplex.peer("us", source="ap") == geoplex.region("us").peer


def test_budgets_are_limits_of_the_driver() -> None:
    budget = parse(
        BASE
        + """
        [budget.agent]
        bandwidth = "8Mbps"
        control_queue = "1KiB"
        data_queue = "2KiB"
        append_queue = "3KiB"
        max_frame = "4KiB"
        max_connections = 5
        max_reads = 6
        """
    ).budget
    assert budget.proxy.limits() == {}
    assert budget.agent.bandwidth_bytes_per_second == 1_000_000
    limits = Limits(**budget.agent.limits())
    assert (limits.control_queue_bytes, limits.data_queue_bytes) == (1024, 2048)
    assert (limits.append_queue_bytes, limits.max_frame_bytes) == (3072, 4096)
    assert (limits.max_connections, limits.max_reads) == (5, 6)


def test_unknown_names_are_answered_with_those_there_are() -> None:
    geoplex = parse(BASE)
    with pytest.raises(UnknownStream) as stream:
        geoplex.stream("prizes")
    assert str(stream.value) == (
        "g.toml: there is no stream 'prizes'; did you mean 'prices'? (there are: prices)"
    )
    with pytest.raises(UnknownRegion, match="no region 'mars'; there are: us, eu, ap"):
        geoplex.link("us", "mars")
    for question in (geoplex.streams_of, geoplex.peers, geoplex.region):
        with pytest.raises(UnknownRegion):
            question("mars")


# -- sections of others ---------------------------------------------------------------------------


class Settings(Struct, rename=without_unit, forbid_unknown_fields=True):
    fanout: Annotated[int, Meta(ge=1)] = 4
    period_ns: Duration = SECOND


def test_a_section_is_read_by_who_knows_its_type() -> None:
    geoplex = parse(BASE + "[agents]\nperiod = '5ms'")
    assert geoplex.section("agents", Settings) == Settings(period_ns=5 * MILLISECOND)
    assert geoplex.section("proxies", Settings) == Settings()


def test_problems_in_such_a_section_have_their_lines() -> None:
    geoplex = parse(BASE + "[agents]\nfanout = 0\nperiod = 5\nfanot = 1")
    with pytest.raises(ConfigError) as caught:
        geoplex.section("agents", Settings)
    lines = str(caught.value).splitlines()
    assert [line.partition(": expected")[0] for line in lines] == [
        "g.toml:12: agents.fanout",
        "g.toml:13: agents.period",
        "g.toml:14: agents.fanot: unknown key; known keys: fanout, period",
    ]


def test_a_section_is_a_table() -> None:
    assert error("agents = 3\n" + BASE) == "g.toml:1: agents: expected a table, found 3"


def test_simulate() -> None:
    section = parse(BASE).simulation(SimulateSection)
    assert section.agents_in("us") == 10
    assert section.workloads(["a", "b"]) == [StreamWorkload(stream="a"), StreamWorkload(stream="b")]
    section = parse(
        BASE
        + """
        [simulate]
        agents = { us = 3 }
        [[simulate.workload]]
        stream = "prices"
        rate = "6/min"
        """
    ).simulation(SimulateSection)
    assert (section.agents_in("us"), section.agents_in("eu")) == (3, 0)
    assert section.workloads(["a"]) == [StreamWorkload(stream="prices", rate_per_second=0.1)]


def test_simulate_is_checked_against_the_rest() -> None:
    geoplex = parse(
        BASE
        + """[simulate]
duration = "10s"
agents = { us = 3, mars = 1 }
[[simulate.workload]]
stream = "prizes"
region = "moon"
from = "10s"
"""
    )
    with pytest.raises(ConfigError) as caught:
        geoplex.simulation(SimulateSection)
    assert str(caught.value).splitlines() == [
        "g.toml:13: simulate.agents.mars: there is no region 'mars'; there are: us, eu, ap",
        "g.toml:15: simulate.workload[0].stream: there is no stream 'prizes'; "
        "did you mean 'prices'? (there are: prices)",
        "g.toml:16: simulate.workload[0].region: there is no region 'moon'; there are: us, eu, ap",
        "g.toml:17: simulate.workload[0].from: it begins at 10s, but publishing ends after 10s",
    ]


# -- what it is refused for -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "g.toml: missing key 'name': expected text in quotes"),
        (
            "name = 'x'\nregions = {}",
            "g.toml:2: regions: expected a table of 1 to 256 entries, found 0",
        ),
        (BASE.replace("shop", "Shop"), "g.toml:1: name: a name is a lower-case letter"),
        (BASE + "[regions.'..']\nproxy = 'h:1'", 'g.toml:11: regions."..": a name is'),
        (BASE + "[streams.'a/b']\nowner = 'us'", 'g.toml:11: streams."a/b": a name is'),
        (BASE + "[regions.x]", "g.toml:11: regions.x: missing key 'proxy'"),
        (
            BASE + "[regions.x]\nproxy = 'h:1'\nreplicas = ['h:2']",
            "g.toml:13: regions.x.replicas: give either proxy or replicas",
        ),
        (
            BASE + "[regions.x]\nreplicas = ['h:1', 'h:1']",
            "g.toml:12: regions.x.replicas[1]: h:1 is the address of two replicas",
        ),
        (
            BASE + "[regions.x]\nreplicas = ['h:1', 'h:2']\nadvertise = 'h:3'",
            "g.toml:13: regions.x.advertise: several replicas need an address each",
        ),
        (
            BASE + "[coordination]\nservice = 'redis://h:1'",
            "g.toml:12: coordination.service: expected sqlite:FILE, etcd://HOST:PORT or etcds://",
        ),
        (
            BASE + "[regions.x]\nreplicas = [\n'h']",
            "g.toml:13: regions.x.replicas[0]: expected an address such as",
        ),
        (BASE + "[regions.x]\nproxy = '[::]:1'", "g.toml:12: regions.x.proxy: nobody can connect"),
        (
            BASE + "[regions.x]\nproxy = 'h:1'\nadvertise = '0.0.0.0:1'",
            "g.toml:13: regions.x.advertise: nobody can connect to 0.0.0.0:1",
        ),
        (BASE + "[regions.x]\nproxy = 'h:1'\ndata = ''", "g.toml:13: regions.x.data: expected a"),
        (
            BASE + "[regions.x]\nproxy = '10.0.0.2:7400'",
            "g.toml:11: regions.x: 10.0.0.2:7400 is the address of region 'eu' already",
        ),
        (
            BASE + "[regions.x]\nproxy = '10.0.0.1:1'\ndata = 'us/'",
            "g.toml:13: regions.x.data: region 'us' on the same host keeps its data there",
        ),
        (
            BASE + "[streams.x]\nowner = 'uss'",
            "g.toml:12: streams.x.owner: there is no region 'uss'; did you mean 'us'?",
        ),
        (
            BASE + "[streams.x]\nowner = 'eu'\nack = 'disk'",
            "g.toml:13: streams.x.ack: 'disk' needs a disk, but region 'eu' has no data folder",
        ),
        (
            BASE + "sync_interval = '1s'",
            "g.toml:11: streams.prices.sync_interval: has no effect without ack = 'interval'",
        ),
        (BASE + "ack = 'chain'", "g.toml:11: streams.prices.ack: expected one of"),
        (BASE + "last_n = 0", "g.toml:11: streams.prices.last_n: expected an integer of at least"),
        (BASE + "max_age = '0s'", "g.toml:11: streams.prices.max_age: expected a duration above"),
        (
            BASE + "retain_size = '1KiB'",
            "g.toml:11: streams.prices.retain_size: expected a size of at least '1MiB'",
        ),
        (
            BASE + "[[links]]\nfrom = 'us'\nto = 'mars'\nloss = 0",
            "g.toml:13: links[0].to: there is no region 'mars'",
        ),
        (BASE + "[[links]]\nfrom = 'us'\nto = 'us'\nloss = 0", "g.toml:11: links[0]: a link from"),
        (BASE + "[[links]]\nfrom = 'us'\nto = 'eu'", "g.toml:11: links[0]: says nothing"),
        (
            BASE + "[[links]]\nfrom = 'us'\nto = 'eu'\nvia = 'relay'",
            "g.toml:14: links[0].via: expected an address such as",
        ),
        (
            BASE + "[[links]]\nfrom = 'us'\nto = 'eu'\nloss = 0\n" * 2,
            "g.toml:15: links[1]: a second link from 'us' to 'eu'",
        ),
        (
            BASE + "[[links]]\nfrom = 'us'\nto = 'eu'\nvia = '10.0.0.3:7400'",
            "g.toml:14: links[0].via: 10.0.0.3:7400 leads to region 'ap' already",
        ),
        (
            BASE
            + "[[links]]\nfrom = 'us'\nto = 'eu'\nvia = 'r:1'\n"
            + "[[links]]\nfrom = 'us'\nto = 'ap'\nvia = 'r:1'",
            "g.toml:18: links[1].via: r:1 leads to region 'eu' already",
        ),
    ],
)
def test_refused(text: str, message: str) -> None:
    assert error(text).startswith(message)


def test_every_problem_is_told() -> None:
    found = error(
        BASE
        + "[streams.x]\nowner = 'x'\n[streams.y]\nowner = 'y'\n[regions.Z]\nproxy = '10.0.0.1:7400'"
    )
    assert [line.split(": ")[:2] for line in found.splitlines()] == [
        ["g.toml:12", "streams.x.owner"],
        ["g.toml:14", "streams.y.owner"],
        ["g.toml:15", "regions.Z"],
        ["g.toml:15", "regions.Z"],
    ]


def test_streams_with_the_same_id_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "stream_id", len)
    assert error(BASE + "[streams.offers]\nowner = 'us'") == (
        "g.toml:11: streams.offers: 'prices' and 'offers' have the same id by chance; "
        "rename one of them"
    )


# -- files ----------------------------------------------------------------------------------------


def test_data_is_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "g.toml"
    path.write_text(BASE + "[regions.x]\nproxy = 'h:1'\ndata = '/var/x'", encoding="utf-8")
    geoplex = load_geoplex(path)
    assert geoplex.region("us").data == str(tmp_path / "us")
    assert geoplex.region("x").data == "/var/x"
    assert geoplex.region("eu").data is None


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        load_geoplex(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"bytes\.toml: cannot be read: not UTF-8"):
        load_geoplex(tmp_path / "bytes.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_geoplex(Path("a\0b"))


# -- the embedded one -----------------------------------------------------------------------------


def test_embedded_in_memory_and_on_disk() -> None:
    in_memory = embedded_geoplex()
    assert list(in_memory.regions) == ["us", "eu", "ap"]
    assert {region.data for region in in_memory.regions.values()} == {None}
    assert {stream.ack for stream in in_memory.streams.values()} == {"memory"}
    on_disk = embedded_geoplex([1, 2, 3], 'a "b"\\\x7f/é', "::1")
    assert [region.address for region in on_disk.regions.values()] == [
        ("::1", 1), ("::1", 2), ("::1", 3)
    ]  # fmt: skip
    assert on_disk.region("eu").data == 'a "b"\\\x7f/é/eu'
    assert {name: stream.ack for name, stream in on_disk.streams.items()} == {
        "invalidations": "disk", "prices": "memory", "audit": "disk"
    }  # fmt: skip
    assert on_disk.stream("invalidations").latest_per_key
    assert not on_disk.stream("audit").latest_per_key


def test_embedded_wants_a_port_per_region() -> None:
    with pytest.raises(ConfigError, match="a port for each of us, eu, ap"):
        embedded_geoplex([1, 2])
    with pytest.raises(ConfigError, match=r"regions\.eu: 127.0.0.1:1 is the address of"):
        embedded_geoplex([1, 1, 2])
    with pytest.raises(ConfigError, match="a port is a number from 1 to 65535"):
        embedded_geoplex([0, 1, 2])


EMBEDDED = embedded_text(data="here")


@given(
    st.integers(0, len(EMBEDDED) - 1),
    st.sampled_from(["", "x", "5", "'", '"', "[", "]", "=", "\n", ".", ":", "#", "é", "{", "\0"]),
    st.integers(0, 12),
)
def test_a_damaged_file_is_read_or_refused_with_its_name(at: int, junk: str, cut: int) -> None:
    try:
        parse(EMBEDDED[:at] + junk + EMBEDDED[at + cut :])
    except ConfigError as problem:
        assert all(line.startswith("g.toml:") for line in str(problem).splitlines())
