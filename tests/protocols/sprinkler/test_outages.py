"""Links between regions that fail, and links that do not: how long events fail to come, and who is
left for whom. Simulated, at rates at which an advertisement is old the moment it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from math import dist, sqrt
from random import Random

import pytest

from epicast.core import EventBatch, NodeId
from epicast.core.sampling import derive_seed
from epicast.deployment import parse_geoplex
from epicast.log import LogConfig
from epicast.protocols.sprinkler import ClientConfig, ProxyConfig
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.history_disk import HistoryDisk
from epicast.sim.network import Conditions
from epicast.sim.service import Service
from tests.protocols.harness import MS, SECOND
from tests.protocols.sprinkler.world import World, keys_of

NEVER_BREAKS = Conditions(break_after_ns=10**15)
"""A link that swallows: nobody is told, ever."""
BREAKS = Conditions(break_after_ns=0)
UNBOUNDED = ClientConfig(max_unacknowledged_events=1 << 62, max_unacknowledged_bytes=1 << 62)

Latencies = Mapping[tuple[str, str], float]


def on_a_plane(rng: Random, regions: int) -> Latencies:
    """In ms, one way. No way through a third region is shorter than the direct one."""
    places = {f"r{at}": (rng.uniform(0, 50), rng.uniform(0, 50)) for at in range(regions)}
    return {
        (one, other): max(1.0, round(dist(places[one], places[other]), 2))
        for one, other in combinations(places, 2)
    }


def anyhow(rng: Random, regions: int) -> Latencies:
    return {
        (f"r{one}", f"r{other}"): round(rng.uniform(1, 100), 2)
        for one, other in combinations(range(regions), 2)
    }


def text_of(latencies: Latencies, policies: Mapping[str, str] | None = None) -> str:
    """A stream in each region, named like it."""
    lines = ['name = "mesh"']
    for at, region in enumerate(sorted({end for pair in latencies for end in pair})):
        lines += [f"[regions.{region}]", f'proxy = "h{at}:1"', f'data = "{region}"']
        lines += [f"[streams.{region}]", f'owner = "{region}"', 'ack = "memory"']
        lines += [(policies or {}).get(region, "")]
    for (one, other), latency in latencies.items():
        lines += ["[[links]]", f'from = "{one}"', f'to = "{other}"', f'latency = "{latency}ms"']
    return "\n".join(lines)


class Mesh:
    """Proxies alone, under a load of batches that cost the simulator no more than events."""

    def __init__(self, latencies: Latencies, seed: int, **settings: object) -> None:
        text = text_of(latencies)
        self.geo = SimGeoplex(parse_geoplex(text, "mesh"), seed, collects=False, **settings)
        self.simulation = self.geo.simulation
        self._drivers = {
            region: self.geo.add_client(region, f"{region}/driver", UNBOUNDED)
            for region in self.geo.regions
        }
        self.simulation.run_until(SECOND)

    def load(
        self, region: str, rate: float, batch_ms: float, seconds: float,
        at: Callable[[float], bool] = lambda _: True,
    ) -> None:  # fmt: skip
        """From now on. `at`: whether there is any, at a second of it."""
        rows = max(1, round(rate * batch_ms / 1000))
        batch = EventBatch.build(self.geo.streams[region].id, 1, [b"0123456789"] * rows)
        begin, driver = self.simulation.now, self._drivers[region]
        offset = derive_seed(1, region) % round(batch_ms * MS)
        for number in range(round(1000 * seconds / batch_ms)):
            if at(number * batch_ms / 1000):
                instant = begin + offset + round(number * batch_ms * MS)
                self.simulation.scheduler.at(instant, self.geo.publish, driver, batch)

    def run(self, seconds: float) -> None:
        self.simulation.run_until(self.simulation.now + round(seconds * SECOND))

    def node(self, region: str) -> NodeId:
        return self.geo.proxies[region].id

    def source(self, region: str, stream: str) -> NodeId:
        return self.geo.proxy(region).progress()[stream][1]

    @property
    def switches(self) -> int:
        return sum(
            int(self.geo.proxy(region).statistics()["source_switches"])
            for region in self.geo.regions
        )

    def stall_ms(self, near: str, far: str, seconds: float) -> float:
        """The longest that nothing of the far region is stored at the near one, from now on."""
        simulation = self.simulation
        end = simulation.now + round(seconds * SECOND)
        head, since, longest = self.geo.heads(near)[far], simulation.now, 0
        while simulation.now < end:
            simulation.run_until(simulation.now + MS)
            now_at = self.geo.heads(near)[far]
            longest = max(longest, simulation.now - since)
            if now_at != head:
                head, since = now_at, simulation.now
        return longest / MS


# -- a link fails --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["swallows", "breaks", "one way"])
def test_events_flow_again_within_the_bound_and_none_is_lost(kind: str, seed: int) -> None:
    """max(period, C / missed events) + a round trip by way of another region."""
    rng = Random(derive_seed(seed, kind))
    latencies = on_a_plane(rng, regions=rng.choice((3, 4)))
    rate, batch_ms = 10 ** rng.uniform(4.3, 6), rng.choice((1, 2, 5, 10))
    config = ProxyConfig(advertise_every_ns=rng.choice((50, 100, 200)) * MS)
    conditions = BREAKS if kind == "breaks" else NEVER_BREAKS
    mesh = Mesh(latencies, seed, proxy_config=config, conditions=conditions)
    far, near = "r0", "r1"
    ends = mesh.node(far), mesh.node(near)

    def is_cut(source: NodeId, target: NodeId) -> bool:
        return (source, target) == ends or (kind != "one way" and (target, source) == ends)

    mesh.load(far, rate, batch_ms, seconds=4)
    mesh.run(2 + rng.random() / 2)
    assert mesh.source(near, far) == ends[0]
    mesh.simulation.network.cut(is_cut)
    stalled = mesh.stall_ms(near, far, seconds=1)
    assert mesh.source(near, far) not in (0, ends[0])

    def latency(one: str, other: str) -> float:
        return latencies[min(one, other), max(one, other)]

    others = [region for region in mesh.geo.regions if region not in (far, near)]
    round_trip = min(2 * (latency(far, other) + latency(other, near)) for other in others)
    bound = max(config.advertise_every_ns / MS, 1000 * sqrt(config.hysteresis / rate)) + round_trip
    assert stalled <= bound + batch_ms + 1  # something comes every so often, and is looked for
    mesh.run(3)
    assert mesh.geo.heads(near) == mesh.geo.heads(far)  # with the link still out
    mesh.simulation.network.mend(is_cut)


def test_the_direct_way_is_taken_again_when_it_is_back() -> None:
    latencies = {("r0", "r1"): 15.0, ("r0", "r2"): 30.0, ("r1", "r2"): 30.0}
    mesh = Mesh(latencies, 1, conditions=NEVER_BREAKS)
    ends = {mesh.node("r0"), mesh.node("r1")}

    def is_cut(source: NodeId, target: NodeId) -> bool:
        return {source, target} == ends

    mesh.load("r0", 100_000, 5, seconds=6)
    mesh.run(2)
    mesh.simulation.network.cut(is_cut)
    mesh.run(1)
    assert mesh.source("r1", "r0") == mesh.node("r2")
    mesh.simulation.network.mend(is_cut)
    mesh.run(2)
    assert mesh.source("r1", "r0") == mesh.node("r0")
    assert mesh.switches == 2


def test_a_source_that_loses_its_own_is_left_within_the_bound() -> None:
    """r1 follows r2, which then loses r0, too, and finds it again by way of r3."""
    latencies = {
        ("r0", "r1"): 15.0, ("r0", "r2"): 20.0, ("r1", "r2"): 20.0,
        ("r0", "r3"): 25.0, ("r1", "r3"): 25.0, ("r2", "r3"): 25.0,
    }  # fmt: skip
    mesh = Mesh(latencies, 1, conditions=NEVER_BREAKS)
    cut: set[frozenset[NodeId]] = {frozenset((mesh.node("r0"), mesh.node("r1")))}
    mesh.load("r0", 100_000, 5, seconds=5)
    mesh.run(2)
    mesh.simulation.network.cut(lambda *ends: frozenset(ends) in cut)
    mesh.run(1)
    assert mesh.source("r1", "r0") == mesh.node("r2")
    cut.add(frozenset((mesh.node("r0"), mesh.node("r2"))))
    assert mesh.stall_ms("r1", "r0", seconds=1) <= 100 + 2 * (25 + 25) + 6
    mesh.run(2)
    assert mesh.geo.heads("r1") == mesh.geo.heads("r0")


# -- none does -----------------------------------------------------------------------------------


def _burst(length: float, pause: float) -> Callable[[float], bool]:
    return lambda second: second % (length + pause) < length


HEALTHY: dict[str, dict[str, object]] = {
    "a million": {"rate": 1e6, "batch_ms": 4},
    "rare batches": {"rate": 1e6, "batch_ms": 70},
    "eight regions": {"rate": 3e5, "batch_ms": 20, "regions": 8},
    "bursts": {"rate": 1e6, "batch_ms": 4, "at": _burst(0.3, 0.7)},
    "short bursts": {"rate": 1e6, "batch_ms": 4, "at": _burst(0.05, 0.2)},
    "few events": {"rate": 20, "batch_ms": 50},
    "detours that are shorter": {"rate": 1e6, "batch_ms": 5, "latencies": anyhow},
    "slow disks": {"rate": 1e6, "batch_ms": 5, "sync_ns": 80 * MS},
    "windows that are full": {
        "rate": 1e6, "batch_ms": 5, "sync_ns": 80 * MS,
        "proxy_config": ProxyConfig(window_bytes=1 << 20),
    },
    "proxies that are busy": {
        "rate": 2e6, "batch_ms": 5,
        "proxy_service": Service(per_message_ns=20_000, per_byte_ns=10.0),
    },
    "links that are full": {
        "rate": 1e6, "batch_ms": 5,
        "proxy_bandwidth": Bandwidth(40_000_000, 40_000_000, 48 << 20),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_where_all_links_are_fine_sources_are_kept(name: str) -> None:
    settings = dict(HEALTHY[name])
    rate, batch_ms = settings.pop("rate"), settings.pop("batch_ms")
    draw, regions = settings.pop("latencies", on_a_plane), settings.pop("regions", 4)
    at = settings.pop("at", lambda _: True)
    mesh = Mesh(draw(Random(name), regions), 1, **settings)  # type: ignore[operator]
    for region in mesh.geo.regions:
        mesh.load(region, rate, batch_ms, seconds=3, at=at)  # type: ignore[arg-type]
    mesh.run(4)
    owners = {
        (region, stream): mesh.node(stream)
        for region in mesh.geo.regions
        for stream in mesh.geo.regions
        if region != stream
    }
    assert mesh.switches == 0
    assert {pair: mesh.source(*pair) for pair in owners} == owners


def test_links_that_lose_packets_do_not_make_sources_change_for_ever() -> None:
    mesh = Mesh(on_a_plane(Random(1), 4), 1, conditions=Conditions(loss=0.01))
    for region in mesh.geo.regions:
        mesh.load(region, 100_000, 10, seconds=9)
    mesh.run(5)
    before = mesh.switches
    mesh.run(4)
    assert mesh.switches - before <= 12  # one for each stream and region; at first it is several
    mesh.run(3)
    heads = [mesh.geo.heads(region) for region in mesh.geo.regions]
    assert heads[1:] == heads[:-1]


# -- a partial mesh ------------------------------------------------------------------------------

KEYS = 40
POLICIES = {
    "r0": "latest_per_key = true",
    "r1": "latest_per_key = true\nlast_n = 500",
    "r2": "last_n = 100",
}
MOST_LIVE = {"r0": KEYS, "r1": KEYS, "r2": 100}
"""What the policies leave; the rest of the events is to be gone everywhere."""
SMALL_SEGMENTS = LogConfig(sync="memory", segment_bytes=16 << 10, compact_per_append=4.0)


@pytest.mark.parametrize("seed", range(8))
def test_in_a_partial_mesh_events_flow_and_storage_is_freed(seed: int) -> None:
    """r0 reaches r1 and r2, which do not reach each other: from the start, or all of a sudden."""
    rng = Random(derive_seed(seed, "partial mesh"))
    conditions = Conditions(
        break_after_ns=rng.choice((0, SECOND, 10**15)),
        connect_timeout_ns=rng.choice((1, 3)) * SECOND,
    )
    latencies = {pair: rng.choice((1.0, 15.0, 60.0)) for pair in combinations(POLICIES, 2)}
    world = World(
        text_of(latencies, POLICIES), seed, conditions=conditions, log=SMALL_SEGMENTS,
        sync_ns=rng.choice((0, 5 * MS)),
    )  # fmt: skip
    apart = {world.geo.proxies["r1"].id, world.geo.proxies["r2"].id}
    one_way = rng.random() < 0.3

    def is_cut(source: NodeId, target: NodeId) -> bool:
        return {source, target} == apart and (not one_way or source == min(apart))

    publishers = {region: world.client(region, f"{region}/p") for region in POLICIES}
    for region in POLICIES:
        agent = world.agent(region, f"{region}/a")
        for number, stream in enumerate(POLICIES, 1):
            agent.subscribe(number, stream, 1 << 20)
    cut_at = rng.choice((0, 2))
    steps, events = 6 * 50, 20
    for step in range(steps):
        if step == cut_at * 50:
            world.simulation.network.cut(is_cut)
        for region, publisher in publishers.items():
            world.publish(publisher.node, region, keys_of(rng, events, KEYS), size=60)
        world.run(20 * MS)
    world.drain()  # everybody has everything, with the link still out
    total = steps * events
    for region in POLICIES:
        assert world.geo.heads(region) == dict.fromkeys(POLICIES, total)
        disk = world.geo.proxies[region].disk
        assert isinstance(disk, HistoryDisk)
        for stream, most in MOST_LIVE.items():
            history = disk.history(world.geo.streams[stream].id)
            assert history is not None
            found = history.statistics()
            assert found.live_events <= most, (region, stream)
            assert found.collected_events == total - found.live_events
            assert found.stored_bytes < found.appended_bytes / 5, (region, stream)
    for one, other in (("r1", "r2"), ("r2", "r1")):
        assert world.geo.proxy(one).progress()[other][1] == world.geo.proxies["r0"].id
    world.simulation.network.mend(is_cut)
    world.run(5 * SECOND)
    world.drain()
