"""Everybody who was away for longer than history is kept is told once what it has lost."""

import pytest

from epicast.log import LogConfig
from epicast.protocols.sprinkler import AgentConfig, ClientConfig, ProxyConfig
from tests.protocols.harness import MS, SECOND
from tests.protocols.sprinkler.world import World

TEXT = """
name = "three"
[regions.us]
proxy = "us:1"
[regions.eu]
proxy = "eu:1"
[regions.ap]
proxy = "ap:1"
[streams.all]
owner = "us"
[streams.latest]
owner = "us"
latest_per_key = true
"""
RETAINED = 24 << 10
KEPT = LogConfig(sync="memory", segment_bytes=4096, window_bytes=4096, retain_bytes=RETAINED)


class Case:
    def __init__(self, seed: int) -> None:
        self.world = world = World(
            TEXT, seed, log=KEPT, proxy=ProxyConfig(recent_bytes=8000),
            agent=AgentConfig(buffer_bytes=4000, early_bytes=4000), client=ClientConfig(),
        )  # fmt: skip
        world.run(SECOND)
        self.publisher = world.client("us", "p")
        self.applications = []
        for region in ("us", "ap"):
            sidecar = world.sidecar(region, f"{region}/sidecar")
            world.run(SECOND)
            self.applications += [
                sidecar, world.agent(region, f"{region}/agent"),
                world.client(region, f"{region}/client"),
                world.client(region, f"{region}/attached", at=sidecar.node),
            ]  # fmt: skip
        for application in self.applications:
            application.subscribe(1, "all", 20_000)
            application.subscribe(2, "latest", 20_000)

    def publish(self, seconds: float) -> None:
        for _ in range(int(seconds * 20)):
            for stream in ("all", "latest"):
                self.world.publish(self.publisher.node, stream, [b"a", b"b", b"c"], size=100)
            self.world.run(50 * MS)
            self.world.retain()


@pytest.mark.parametrize("seed", range(3))
def test_agents_and_clients_that_were_away_are_told_once(seed: int):
    case = Case(seed)
    world = case.world
    case.publish(2)
    edges = {application.node.id for application in case.applications}
    proxies = {node.id for node in world.geo.proxies.values()}

    def is_away(source: int, target: int) -> bool:
        return (source in edges and target in proxies) or (source in proxies and target in edges)

    world.simulation.network.cut(is_away)
    case.publish(10)
    world.simulation.network.mend(is_away)
    case.publish(2)
    world.drain()
    for session in world.auditor.sessions.values():
        assert len(session.skipped) == 1, f"{session.name}: {session.skipped}"


@pytest.mark.parametrize("seed", range(3))
def test_a_region_that_was_away_tells_its_subscribers_what_it_was_told(seed: int):
    case = Case(seed)
    world = case.world
    case.publish(2)
    ap = world.geo.proxies["ap"].id
    others = {node.id for node in world.geo.proxies.values()} - {ap}

    def is_away(source: int, target: int) -> bool:
        return (source == ap and target in others) or (source in others and target == ap)

    world.simulation.network.cut(is_away)
    case.publish(10)
    world.simulation.network.mend(is_away)
    case.publish(2)
    world.drain()
    for session in world.auditor.sessions.values():
        told = len(session.skipped)
        assert told == session.name.startswith("ap"), f"{session.name}: {session.skipped}"
