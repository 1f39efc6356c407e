"""What the file says reaches the parts a node is made of."""

from pathlib import Path

import pytest

from epicast.core import Peer
from epicast.deployment import Address, UnknownRegion, node_id_of, parse_geoplex, stream_id
from epicast.geo.plans import limits_of, proxy_plan, reachable_peer, stream_store
from epicast.geo.ports import NoFreePort, free_ports, moved, next_free_ports
from epicast.geo.proxy import ProxyService
from epicast.runtime import Limits

TEXT = """
name = "shop"

[regions.us]
proxy = "0.0.0.0:7400"
advertise = "proxy.us.example:7409"
data = "data/us"

[regions.eu]
proxy = "10.0.0.2:7400"

[[links]]
from = "us"
to = "eu"
via = "10.9.9.9:9000"

[streams.clicks]
description = "The last clicks."
owner = "us"
ack = "interval"
sync_interval = "200ms"
last_n = 10
max_age = "1h"
latest_per_key = true
retain_size = "2MiB"
retain_age = "2h"
max_key = "64B"

[budget.proxy]
max_connections = 7
data_queue = "1MiB"
"""
SHOP = parse_geoplex(TEXT, "shop.toml", "/srv")


def test_a_plan_names_streams_and_the_way_to_others() -> None:
    plan = proxy_plan(SHOP, "us")
    assert plan.region == "us"
    assert plan.proxies == (Peer(node_id_of("eu"), "10.9.9.9", 9000),)
    (info,) = plan.streams
    assert (info.id, info.owner, info.region) == (stream_id("clicks"), node_id_of("us"), "us")
    assert (info.level, info.last_n, info.max_age_ns) == ("interval", 10, 3_600_000_000_000)
    assert info.latest_per_key and info.max_key_bytes == 64 and info.description


def test_a_history_on_files_is_kept_as_the_stream_says() -> None:
    store = stream_store(SHOP.stream("clicks"), "us", Path("/srv/data/us"), 99)
    assert store.owned and store.folder == Path("/srv/data/us/streams/clicks")
    assert store.policy.last_n == 10 and store.policy.latest_per_key
    assert store.policy.max_age_ns == 3_600_000_000_000
    config = store.config
    assert config is not None
    assert (config.sync, config.sync_interval_ns) == ("interval", 200_000_000)
    assert (config.retain_bytes, config.retain_ns) == (2 << 20, 7_200_000_000_000)
    assert (config.max_key_bytes, config.max_publishers) == (64, 99)


def test_a_region_without_a_folder_keeps_everything_in_memory() -> None:
    store = stream_store(SHOP.stream("clicks"), "eu", None, 99)
    assert not store.owned and store.folder is None
    assert store.config is not None and store.config.sync == "memory"
    assert store.config.retain_bytes == 2 << 20 and store.config.max_key_bytes == 64


def test_budgets_are_limits() -> None:
    limits = limits_of(SHOP.budget.proxy)
    assert (limits.max_connections, limits.data_queue_bytes) == (7, 1 << 20)
    assert limits.max_reads == Limits().max_reads


def test_others_are_told_the_advertised_address() -> None:
    listening = Peer(node_id_of("us"), "0.0.0.0", 7400)
    assert reachable_peer(SHOP.region("us"), listening).host == "proxy.us.example"
    other = Peer(node_id_of("eu"), "10.0.0.2", 40_000)
    assert reachable_peer(SHOP.region("eu"), other) == other


def test_moving_changes_nothing_but_ports() -> None:
    elsewhere = moved(SHOP, {"us": 1, "eu": 2})
    assert elsewhere.region("us").listen == Address("0.0.0.0", 1)
    assert elsewhere.region("us").address == Address("proxy.us.example", 1)
    assert elsewhere.region("eu").address == Address("10.0.0.2", 2)
    assert elsewhere.region("us").data == "/srv/data/us"
    assert elsewhere.streams == SHOP.streams


def test_an_unknown_region_names_those_there_are() -> None:
    with pytest.raises(UnknownRegion, match="there is no region 'uss'; did you mean 'us'"):
        ProxyService(SHOP, "uss")


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    first = next_free_ports(2, ports[0])
    assert first[0] >= ports[0] and first[0] < first[1]


def test_ports_that_do_not_exist_are_not_found() -> None:
    with pytest.raises(NoFreePort, match="from 65535 on"):
        next_free_ports(2, 65_535)
    with pytest.raises(NoFreePort, match=r"192\.0\.2\.1"):
        free_ports(1, "192.0.2.1")
