"""What the file says reaches the parts a node is made of."""

from pathlib import Path

import pytest

from epicast.core import Peer
from epicast.deployment import Address, UnknownRegion, node_id_of, parse_geoplex, stream_id
from epicast.geo.plans import limits_of, reachable_peer, stream_store
from epicast.geo.ports import NoFreePort, free_ports, moved, next_free_ports
from epicast.geo.proxy import ProxyService
from epicast.protocols.sprinkler import chain_plan, proxy_plan
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
    store = stream_store(SHOP.stream("clicks"), SHOP.region("us"), Path("/srv/data/us"), 99)
    assert store.owned and store.folder == Path("/srv/data/us/streams/clicks")
    assert store.policy.last_n == 10 and store.policy.latest_per_key
    assert store.policy.max_age_ns == 3_600_000_000_000
    config = store.config
    assert config is not None
    assert (config.sync, config.sync_interval_ns) == ("interval", 200_000_000)
    assert (config.retain_bytes, config.retain_ns) == (2 << 20, 7_200_000_000_000)
    assert (config.max_key_bytes, config.max_publishers) == (64, 99)


def test_a_region_without_a_folder_keeps_everything_in_memory() -> None:
    store = stream_store(SHOP.stream("clicks"), SHOP.region("eu"), None, 99)
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


CHAINED = parse_geoplex(
    """
name = "shop"
[regions.us]
replicas = ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"]
data = "data/us"
[regions.eu]
proxy = "10.0.1.1:1"
[[links]]
from = "eu"
to = "us"
via = ["10.9.0.1:9", "10.9.0.2:9", "10.9.0.3:9"]
[streams.orders]
owner = "us"
[coordination]
service = "sqlite:agree.db"
""",
    "shop.toml",
    "/srv",
)


def test_replicas_have_names_ids_and_folders_of_their_own() -> None:
    region = CHAINED.region("us")
    assert [replica.name for replica in region.replicas] == ["us/1", "us/2", "us/3"]
    ids = [replica.id for replica in region.replicas]
    assert ids == [node_id_of("us"), node_id_of("us/2"), node_id_of("us/3")]
    folders = [replica.data for replica in region.replicas]
    assert folders == ["/srv/data/us", "/srv/data/us/replica-2", "/srv/data/us/replica-3"]
    assert (
        CHAINED.replica("us/3")[1] == region.replicas[2] and CHAINED.replica("eu")[1].data is None
    )
    assert all(CHAINED.region_by_id(each) == region for each in ids)
    assert CHAINED.coordination == "sqlite:/srv/agree.db"
    with pytest.raises(UnknownRegion, match="us/4"):
        CHAINED.replica("us/4")


def test_every_replica_knows_those_of_its_region_and_the_ways_to_all_others() -> None:
    chain = chain_plan(CHAINED, "us")
    assert chain is not None and chain.durable
    assert [peer.host for peer in chain.replicas] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert chain_plan(CHAINED, "eu") is None
    plan = proxy_plan(CHAINED, "eu")
    assert [peer.host for peer in plan.proxies] == ["10.9.0.1", "10.9.0.2", "10.9.0.3"]
    assert {plan.region_ids[peer.id] for peer in plan.proxies} == {node_id_of("us")}


def test_a_chain_decides_itself_on_epochs_and_names_publishers() -> None:
    store = stream_store(CHAINED.stream("orders"), CHAINED.region("us"), Path("/d"), 99)
    assert not store.owned and store.config is not None
    assert store.config.names_publishers and store.config.compact_lag_segments >= 1
