"""All replicas of a chain end at once, and one of them comes back with a damaged history."""

from __future__ import annotations

from pathlib import Path

import pytest

from epicast import Event, sync
from epicast.deployment import parse_geoplex
from epicast.experiments.geo_load import wait_for_chains
from epicast.geo.local import LocalGeoplex
from epicast.geo.ports import free_ports
from tests.geo.support import QUICK, eventually
from tests.integration.endings.stage import REPLICAS

EVENTS = 200


def flip_a_bit(data: Path) -> None:
    """In the middle of what a replica has stored."""
    [segment] = data.glob("streams/*/*.seg")
    content = bytearray(segment.read_bytes())
    content[len(content.rstrip(b"\0")) // 2] ^= 1
    segment.write_bytes(content)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_one_replica_lost_the_others_have(tmp_path: Path, place: int) -> None:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    text = f"""
name = "damaged"
[regions.us]
replicas = {addresses}
data = "us"
[streams.orders]
owner = "us"
ack = "disk"
{QUICK}
"""
    expected = [b"%d" % number for number in range(EVENTS)]
    geoplex = parse_geoplex(text, "damaged.toml", str(tmp_path))
    with LocalGeoplex(geoplex) as local:
        wait_for_chains(local)
        with sync.connect(local.address("us"), agent=False) as node:
            orders = node.stream("orders")
            following = orders.subscribe(after=0)
            for payload in expected:
                orders.publish(payload)
            for name in REPLICAS:
                local.kill(name)
            data = local.geoplex.replica(REPLICAS[place])[1].data
            assert data is not None
            flip_a_bit(Path(data))
            for name in REPLICAS:
                local.launch(name)
            eventually(lambda: set(local.processes) == {*REPLICAS}, "replicas do not start")
            assert orders.publish(b"after") == EVENTS + 1
            wait_for_chains(local)
            for subscription in (following, orders.subscribe(after=0)):
                got: list[bytes] = []
                while len(got) <= EVENTS:
                    item = subscription.get(timeout=60)
                    assert isinstance(item, Event), item
                    got.append(item.payload)
                assert got == [*expected, b"after"]
                subscription.close()
