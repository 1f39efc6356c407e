"""The simulated regions of claims S2 and S3 do what a network of that speed would."""

import pytest

from epicast.core import EventBatch
from epicast.experiments.sprinkler_region import (
    EVENT_BYTES,
    REGIONS,
    THREE_REGIONS,
    Region,
    Setting,
)

GIGABIT = 125_000_000


def run(**changes: float) -> tuple[Region, dict[str, float]]:
    settings = {"agents": 8, "fanout": 4, "shuffle_ms": 30.0, "batch_ms": 20.0,
                "measured_ms": 300.0, **changes}  # fmt: skip
    region = Region(Setting(**settings), seed=3)
    region.run()
    return region, region.metrics()


def test_a_light_load_arrives_everywhere_soon() -> None:
    region, found = run(rate=50_000.0)
    load = len(REGIONS) * 50_000
    assert found["complete_per_s"] == pytest.approx(load, rel=0.1)
    assert found["unfinished"] == 0
    farthest = max(THREE_REGIONS.latencies_ms.values())
    assert farthest < found["latency_ms"] < farthest + 100
    assert found["broken"] == 0
    for agents in region.geoplex.agents.values():
        assert len(agents) == 8
        for node in agents:
            node.protocol.check_invariants()


def test_agents_know_more_than_their_proxy_before_the_load() -> None:
    region = Region(Setting(agents=8, fanout=4, shuffle_ms=30.0), seed=3)
    for name, agents in region.geoplex.agents.items():
        others = {node.id for node in agents}
        for node in agents:
            view = set(node.protocol.neighbors())
            assert view <= others | {region.geoplex.proxies[name].id}
            assert len(view & others) == 7  # all there are


def test_nobody_gets_more_than_a_link_carries() -> None:
    _, found = run(rate=6_000_000.0)
    most = GIGABIT / EVENT_BYTES
    assert found["delivered_per_s"] <= most
    assert found["complete_per_s"] < 0.8 * len(REGIONS) * 6_000_000
    assert found["unfinished"] > 0


def test_the_same_seed_runs_the_same() -> None:
    assert run(rate=200_000.0)[1] == run(rate=200_000.0)[1]


def test_what_an_event_takes_on_the_wire() -> None:
    batch = EventBatch.build(1, 1, [bytes(EVENT_BYTES)] * 5000)
    assert batch.wire_size() == pytest.approx(5000 * EVENT_BYTES, rel=0.01)
