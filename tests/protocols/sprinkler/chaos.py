"""A run drawn from a seed: a geoplex, its applications, what they publish, and what goes wrong.

First anything may happen; then everything is mended, and all that was acknowledged must be with
everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise
from random import Random
from typing import Any

from epicast.core import EventKind, Trace
from epicast.core.sampling import derive_seed
from epicast.log import gc_payload, parse
from epicast.protocols.sprinkler import AgentConfig, ClientConfig, ProxyConfig
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.network import Conditions
from epicast.sim.node import SimNode
from tests.protocols.sprinkler.world import MS, SECOND, Application, World, keys_of

TROUBLE_BEGINS = SECOND // 2
TROUBLE_ENDS = 6 * SECOND
PUBLISHING_ENDS = 7 * SECOND
POLICIES = (
    "latest_per_key = true",
    "",
    "last_n = 40",
    "latest_per_key = true\nlast_n = 300",
)
REPLAY = "python -m tests.protocols.sprinkler.chaos {seed}"


class Chaos:
    """Each kind of draw has a generator of its own, so that one does not change the others."""

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        self.seed = seed
        self._trace = trace
        rng = self._rng("geoplex")
        self.regions = ["r1", "r2", "r3", "r4"][: rng.randint(2, 4)]
        self.streams = ["s1", "s2", "s3"][: rng.randint(1, 3)]
        self.world = World(
            self._text(rng), seed, proxy=_draw_proxy(rng), agent=_draw_agent(rng),
            client=ClientConfig(
                reconnect_every_ns=rng.choice((100, 500)) * MS,
                acknowledge_within_ns=rng.choice((1, 5)) * SECOND,
            ),
            sync_ns=rng.choice((0, 2 * MS, 30 * MS)),
            conditions=Conditions(
                loss=rng.choice((0.0, 0.0, 0.02)),
                duplication=rng.choice((0.0, 0.1)),
                reordering=rng.choice((0.0, 0.2)),
                break_after_ns=rng.choice((1, 5)) * SECOND,
            ),
            bandwidth=rng.choice((None, None, Bandwidth(3_000_000, 3_000_000, 120_000))),
            trace=trace,
        )  # fmt: skip
        self.narrative: list[str] = []
        self._edges: list[SimNode] = []
        self._cuts: list[Any] = []
        self._lost_disk = False

    def _rng(self, purpose: str) -> Random:
        return Random(derive_seed(self.seed, purpose))

    def _text(self, rng: Random) -> str:
        parts = ['name = "chaos"']
        for at, region in enumerate(self.regions):
            parts.append(f'[regions.{region}]\nproxy = "h{at}:1"\ndata = "d/{region}"')
        for one, other in combinations(self.regions, 2):
            latency = rng.choice((1, 15, 40, 110))
            parts.append(f'[[links]]\nfrom = "{one}"\nto = "{other}"\nlatency = "{latency}ms"')
        for name in self.streams:
            parts.append(f'[streams.{name}]\nowner = "{rng.choice(self.regions)}"\nack = "disk"')
            parts.append(rng.choice(POLICIES))
        return "\n".join(parts)

    # -- the cast --------------------------------------------------------------------------------

    def _populate(self) -> None:
        rng = self._rng("population")
        for region in self.regions:
            for at in range(rng.randint(1, 3)):
                delay = rng.choice((0, 0, 5 * MS, 50 * MS))
                joins = rng.choice((0, 0, rng.randrange(8 * SECOND)))
                kind = rng.choice(("agent", "agent", "client", "sidecar"))
                self._at(joins, self._join, (kind, region, f"{region}/{kind}{at}", delay, rng))

    def _join(self, kind: str, region: str, name: str, delay: int, rng: Random) -> None:
        world = self.world
        if kind == "agent":
            self._subscribe(world.agent(region, name, delay), rng)
        elif kind == "client":
            self._subscribe(world.client(region, name, delay), rng)
        else:
            sidecar = world.sidecar(region, name)
            self._edges.append(sidecar.node)
            if rng.random() < 0.5:
                self._subscribe(sidecar, rng)
            for at in range(rng.randint(1, 2)):
                self._subscribe(world.client(region, f"{name}/c{at}", delay, sidecar.node), rng)

    def _subscribe(self, application: Application, rng: Random) -> None:
        self._edges.append(application.node)
        streams = [name for name in self.streams if rng.random() < 0.8] or self.streams[:1]
        if rng.random() < 0.2:
            streams.append(streams[0])  # the same one twice
        for number, stream in enumerate(streams, 1):
            application.subscribe(number, stream, rng.choice((2000, 20_000, 1 << 20)))
        if rng.random() < 0.25:
            begin = rng.randrange(5 * SECOND)
            self._at(self.world.simulation.now + begin, application.stall, (True,))
            end = begin + rng.randrange(4 * SECOND)
            self._at(self.world.simulation.now + end, application.stall, (False,))

    # -- publishers ------------------------------------------------------------------------------

    def _start_publishers(self) -> None:
        rng = self._rng("publishers")
        for at in range(rng.randint(1, 4)):
            region = rng.choice(self.regions)
            node = self.world.client(region, f"{region}/p{at}").node
            streams = rng.sample(self.streams, rng.randint(1, len(self.streams)))
            batch = rng.choice((1, 7, 7, 1000))
            every = rng.choice((50, 100, 300)) * MS * (10 if batch == 1000 else 1)
            own = Random(rng.random())
            level = rng.choice(("", "", "", "regions=1"))
            keys, size = rng.choice((0, 5, 100)), rng.choice((0, 100, 1500))
            size = min(size, 50) if batch == 1000 else size
            begin = rng.randrange(2 * SECOND)
            for time in range(begin, PUBLISHING_ENDS, every):
                if own.random() < 0.8:
                    arguments = (node, own, streams, batch, level, keys, size)
                    self._at(time, self._publish, arguments)

    def _publish(
        self, node: SimNode, rng: Random, streams: list[str], batch: int, level: str, keys: int,
        size: int,
    ) -> None:  # fmt: skip
        stream = rng.choice(streams)
        info = self.world.geo.streams[stream]
        if rng.random() < 0.05:
            collected = f"seq < {rng.randint(1, 200)}"
            if not info.latest_per_key:
                collected = rng.choice((collected, "key prefix 'k1'"))
            head = gc_payload(parse(collected))
            kinds = [int(EventKind.GC)]
            self.world.publish(node, stream, [b""], level=level, kinds=kinds, head=head)
        else:
            level = level if rng.random() < 0.5 else ""
            count = batch if rng.random() < 0.7 else rng.randint(1, batch)
            self.world.publish(node, stream, keys_of(rng, count, keys), level=level, size=size)

    # -- trouble ---------------------------------------------------------------------------------

    def _plan_trouble(self) -> None:
        rng = self._rng("trouble")
        for _ in range(rng.choice((0, 1, 2, 4, 8))):
            at = rng.randrange(TROUBLE_BEGINS, TROUBLE_ENDS)
            until = min(TROUBLE_ENDS, at + rng.randrange(50 * MS, 6 * SECOND))
            kinds = (
                self._cut, self._cut, self._isolate, self._leave_a_chain, self._crash_edge,
                self._crash_proxy, self._lose_proxy, self._pause_proxy, self._pause_edge,
                self._fill_disk,
            )  # fmt: skip
            self._at(at, rng.choice(kinds), (Random(rng.random()), until))

    def _tell(self, text: str) -> None:
        self.narrative.append(f"{self.world.simulation.now / 1e9:.3f} s: {text}")

    def _cut(self, rng: Random, until: int) -> None:
        one, other = rng.sample(self.regions, 2)
        self._cut_pairs({(one, other)}, until, one_way=rng.random() < 0.2)

    def _isolate(self, rng: Random, until: int) -> None:
        alone = rng.choice(self.regions)
        self._cut_pairs({(alone, other) for other in self.regions if other != alone}, until)

    def _leave_a_chain(self, rng: Random, until: int) -> None:
        """Only one path through all regions stays."""
        order = rng.sample(self.regions, len(self.regions))
        kept = set(pairwise(order))
        pairs = {
            pair for pair in combinations(order, 2) if pair not in kept and pair[::-1] not in kept
        }
        self._cut_pairs(pairs, until)

    def _cut_pairs(self, pairs: set[tuple[str, str]], until: int, one_way: bool = False) -> None:
        self._tell(f"cut {sorted(pairs)} until {until / 1e9:.3f} s{' one way' * one_way}")
        id_of = {region: node.id for region, node in self.world.geo.proxies.items()}
        paths = {(id_of[one], id_of[other]) for one, other in pairs}
        if not one_way:
            paths |= {(other, one) for one, other in paths}

        def is_cut(source: int, target: int) -> bool:
            return (source, target) in paths

        network = self.world.simulation.network
        network.cut(is_cut)
        self._at(until, network.mend, (is_cut,))

    def _crash_edge(self, rng: Random, until: int) -> None:
        edges = [node for node in self._edges if node.alive]
        if edges:
            self._crash(rng.choice(edges), until, silently=rng.random() < 0.3)

    def _crash_proxy(self, rng: Random, until: int) -> None:
        region = rng.choice(self.regions)
        self._crash(self.world.geo.proxies[region], until, silently=rng.random() < 0.3)

    def _lose_proxy(self, rng: Random, until: int) -> None:
        if not self._lost_disk:
            self._lost_disk = True
            region = rng.choice(self.regions)
            self._crash(self.world.geo.proxies[region], until, lose_disk=True)

    def _crash(
        self, node: SimNode, until: int, *, silently: bool = False, lose_disk: bool = False
    ) -> None:
        words = " silently" * silently + " with its disk" * lose_disk
        self._tell(f"crash {self.world.name_of(node)}{words} until {until / 1e9:.3f} s")
        self.world.crash(node, silently=silently, lose_disk=lose_disk)
        self._at(until, self.world.restart, (node,))

    def _pause_proxy(self, rng: Random, until: int) -> None:
        self._pause(self.world.geo.proxies[rng.choice(self.regions)], until)

    def _pause_edge(self, rng: Random, until: int) -> None:
        if self._edges:
            self._pause(rng.choice(self._edges), until)

    def _pause(self, node: SimNode, until: int) -> None:
        self._tell(f"pause {self.world.name_of(node)} until {until / 1e9:.3f} s")
        self.world.simulation.pause(node)
        self._at(until, self.world.simulation.resume, (node,))

    def _fill_disk(self, rng: Random, until: int) -> None:
        node = self.world.geo.proxies[rng.choice(self.regions)]
        assert node.disk is not None
        self._tell(f"disk of {self.world.name_of(node)} full until {until / 1e9:.3f} s")
        node.disk.fill()
        self._at(until, node.disk.free, ())

    def _at(self, time: int, action: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.world.simulation.scheduler.at(
            max(time, self.world.simulation.now), lambda *_: action(*arguments)
        )

    # -- the run ---------------------------------------------------------------------------------

    def run(self) -> World:
        self._populate()
        self._start_publishers()
        self._plan_trouble()
        try:
            self.world.run(8 * SECOND)
            self.world.drain()
        except Exception as error:
            story = "\n  ".join(self.narrative)
            error.add_note(f"replay with: {REPLAY.format(seed=self.seed)}\n  {story}")
            raise
        return self.world


def _draw_proxy(rng: Random) -> ProxyConfig:
    return ProxyConfig(
        view_size=rng.choice((3, 20)),
        fanout=rng.choice((1, 3)),
        ride_bytes=rng.choice((0, 1024)),
        answer_bytes=rng.choice((4096, 512 << 10)),
        advertise_every_ns=rng.choice((50, 100)) * MS,
        chunk_bytes=rng.choice((1000, 256 << 10)),
        window_bytes=rng.choice((50_000, 8 << 20)),
        recent_bytes=rng.choice((0, 3000, 8 << 20)),
        max_unstable_bytes=rng.choice((3000, 48 << 20)),
    )


def _draw_agent(rng: Random) -> AgentConfig:
    return AgentConfig(
        view_size=rng.choice((2, 20)),
        fanout=rng.choice((1, 2)),
        shuffle_time_ns=rng.choice((30, 1000)) * MS,
        ride_bytes=rng.choice((0, 1024)),
        answer_bytes=rng.choice((4096, 512 << 10)),
        buffer_bytes=rng.choice((1, 3000, 16 << 20)),
        early_bytes=rng.choice((1, 3000, 4 << 20)),
        follow_all=rng.random() < 0.3,
        acknowledge_within_ns=1 * SECOND,
    )


if __name__ == "__main__":
    import sys

    for argument in sys.argv[1:]:
        chaos = Chaos(int(argument))
        world = chaos.run()
        counts = (world.auditor.acknowledged, world.auditor.refused, world.auditor.delivered)
        print(argument, *counts, world.simulation.drops)
        print("  " + "\n  ".join(chaos.narrative))
