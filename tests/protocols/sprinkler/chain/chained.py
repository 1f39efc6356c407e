"""A run drawn from a seed: regions that are chains, and whatever can happen to replicas.

What is true of a stream is what was shown: to subscribers, or by an acknowledgement. It must be the
same for everybody, and still be there in the end. Replicas may store, and forget, what was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from epicast.core import EventBatch, NodeId, Publication, Trace
from epicast.core.sampling import derive_seed
from epicast.deployment import parse_geoplex
from epicast.protocols.sprinkler import AgentConfig, ClientConfig, ProxyConfig, ReplicaProxy
from epicast.protocols.sprinkler.notices import Restarted
from epicast.sim.checkers import check_nodes
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.network import Conditions
from epicast.sim.node import SimNode

MS = 1_000_000
SECOND = 1000 * MS
TROUBLE = (1 * SECOND, 8 * SECOND)
PUBLISHING_ENDS = 9 * SECOND
REPLAY = "python -m tests.protocols.sprinkler.chain.chained {seed}"
Key = tuple[int, int]
"""Stream and epoch."""


class Broken(AssertionError):
    pass


class Truth:
    """What subscribers and publishers were told."""

    def __init__(self) -> None:
        self.of_chains: set[int] = set()
        """Streams whose owner has several replicas."""
        self.shown: dict[Key, dict[int, bytes]] = {}
        self.places: dict[tuple[NodeId, int], tuple[int, int]] = {}
        """By node and subscription: epoch and number of what came last."""
        self.acknowledged: dict[bytes, int] = {}
        """By payload, the stream."""
        self.unanswered: set[bytes] = set()
        self.refused: dict[bytes, str] = {}
        self.witnessed: dict[tuple[int, int], bytes] = {}
        """By stream and number, what replicas of its owner have said may be shown."""
        self.vouched: dict[int, int] = {}
        """By stream, how far they have, for what they had when they were started as well."""

    def may_be_shown(
        self, stream: int, end: int, batches: Sequence[EventBatch], news: bool
    ) -> None:
        """Whatever happens to replicas, none of them ever contradicts another."""
        if not news and end > self.vouched.get(stream, 0):
            raise Broken(f"{stream} may be shown up to {end}, and no tail has said so")
        for batch in batches:
            for event in batch.events():
                known = self.witnessed.setdefault((stream, event.seq), event.payload)
                if known != event.payload:
                    raise Broken(f"{stream}/{event.seq}: {known!r} and {event.payload!r} witnessed")
        self.vouched[stream] = max(self.vouched.get(stream, 0), end)

    def _check_witnessed(self, batch: EventBatch) -> None:
        """Before anybody was shown it."""
        if batch.last > self.vouched.get(batch.stream, 0):
            raise Broken(f"nobody has said that {batch} may be shown")
        for event in batch.events():
            known = self.witnessed.get((batch.stream, event.seq), event.payload)
            if known != event.payload:
                raise Broken(f"{event.seq} of {batch.stream} is not what was witnessed: {known!r}")

    def delivered(self, node: NodeId, number: int, batch: EventBatch) -> None:
        epoch, last = self.places.get((node, number), (0, 0))
        if epoch not in (0, batch.epoch) or batch.first != last + 1:
            raise Broken(f"{node}#{number}: {batch} of {batch.epoch} comes behind {epoch}/{last}")
        self.places[node, number] = (batch.epoch, batch.last)
        if batch.stream in self.of_chains:
            self._check_witnessed(batch)
        shown = self.shown.setdefault((batch.stream, batch.epoch), {})
        for event in batch.events():
            known = shown.setdefault(event.seq, event.payload)
            if known != event.payload:
                raise Broken(f"{event.seq} of {batch.stream} is {known!r} and {event.payload!r}")

    def restarted(self, node: NodeId, number: int, notice: Restarted) -> None:
        raise Broken(f"{node}#{number} was restarted at {notice.epoch}/{notice.seq}")

    def was_acknowledged(self, publication: Publication) -> None:
        for payload in publication.batch.payloads():
            self.unanswered.remove(payload)
            self.acknowledged[payload] = publication.batch.stream


class ChainedRun:
    replay = REPLAY
    pace = (3, 20, 70)
    """Milliseconds between two publications."""

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        self.seed = seed
        self.truth = Truth()
        rng = self._rng("geoplex")
        self.regions = self._draw_regions(rng)
        self.streams = ["s", "t"][: rng.randint(1, 2)]
        self.geo = SimGeoplex(
            parse_geoplex(self._text(rng), "chained"),
            seed,
            sync_ns=rng.choice((0, 2 * MS, 20 * MS)),
            proxy_config=ProxyConfig(
                chunk_bytes=rng.choice((1000, 256 << 10)),
                window_bytes=rng.choice((5_000, 8 << 20)),
                recent_bytes=rng.choice((0, 3000, 8 << 20)),
                resume_after_ns=rng.choice((1, 3)) * SECOND,
            ),
            agent_config=AgentConfig(acknowledge_within_ns=SECOND),
            conditions=Conditions(
                loss=rng.choice((0.0, 0.02)),
                break_after_ns=rng.choice((1, 5)) * SECOND,
            ),
            check_addresses=True,
            trace=trace,
            witness=self._witness,
        )
        self.simulation = self.geo.simulation
        self.truth.of_chains = {
            stream.id
            for stream in self.geo.geoplex.streams.values()
            if self.geo.geoplex.region(stream.owner).is_chain
        }
        self.narrative: list[str] = []
        self.subscribers: list[SimNode] = []
        self.publishers: list[SimNode] = []
        self._published: dict[tuple[NodeId, str], int] = {}
        self._diskless: set[str] = set()
        """Regions of which a replica has lost its disk."""
        simulation = self.simulation
        simulation.on_topic_delivery = self._on_delivery
        simulation.on_notice = self._on_notice
        simulation.on_acknowledge = lambda _, publication, __: self.truth.was_acknowledged(
            publication
        )
        simulation.on_refuse = self._on_refuse

    def _witness(self, stream: int, end: int, batches: Sequence[EventBatch], news: bool) -> None:
        self.truth.may_be_shown(stream, end, batches, news)

    def _rng(self, purpose: str) -> Random:
        return Random(derive_seed(self.seed, purpose))

    def _draw_regions(self, rng: Random) -> list[str]:
        return ["a", "b", "c"][: rng.choice((1, 2, 2, 3))]

    def _draw_replicas(self, rng: Random, region: str) -> int:
        return rng.choice((1, 2, 3, 3)) if region != "a" else rng.choice((2, 3, 3, 4))

    def _text(self, rng: Random) -> str:
        parts = ['name = "chained"']
        for region in self.regions:
            count = self._draw_replicas(rng, region)
            addresses = [f"{region}{number}:1" for number in range(count)]
            parts.append(f'[regions.{region}]\nreplicas = {addresses}\ndata = "d/{region}"')
        for name in self.streams:
            owner = "a" if name == "s" else rng.choice(self.regions)
            parts.append(f'[streams.{name}]\nowner = "{owner}"\nack = "disk"')
        return "\n".join(parts)

    # -- what applications do --------------------------------------------------------------------

    def _populate(self) -> None:
        rng = self._rng("population")
        for region in self.regions:
            for at in range(rng.randint(1, 2)):
                add = rng.choice((self.geo.add_agent, self.geo.add_client))
                node = add(region, f"{region}/reader{at}")
                self.subscribers.append(node)
                for number, stream in enumerate(self.streams, 1):
                    self.geo.subscribe(node, number, stream, window_bytes=1 << 20)
            config = ClientConfig(acknowledge_within_ns=SECOND)
            publisher = self.geo.add_client(region, f"{region}/writer", config)
            self.publishers.append(publisher)
            every = rng.choice(self.pace) * MS
            count = rng.choice((1, 1, 5))
            for time in range(every, PUBLISHING_ENDS, every):
                self._at(time, self._publish, (publisher, rng.choice(self.streams), count))

    def _publish(self, node: SimNode, stream: str, count: int) -> None:
        first = self._published.get((node.id, stream), 0) + 1
        self._published[node.id, stream] = first + count - 1
        payloads = [f"{node.id}:{stream}:{first + at}".encode() for at in range(count)]
        self.truth.unanswered.update(payloads)
        self.geo.publish(node, EventBatch.build(self.geo.streams[stream].id, first, payloads))

    def _on_delivery(self, _: int, node: NodeId, number: int, batch: EventBatch) -> None:
        self.truth.delivered(node, number, batch)
        self.geo.consumed(self.simulation.nodes[node], number, batch.last)

    def _on_notice(self, _: int, node: NodeId, number: int, value: object) -> None:
        if isinstance(value, Restarted):
            self.truth.restarted(node, number, value)

    def _on_refuse(self, _: NodeId, publication: Publication, error: str) -> None:
        for payload in publication.batch.payloads():
            self.truth.unanswered.remove(payload)
            self.truth.refused[payload] = error

    # -- trouble ---------------------------------------------------------------------------------

    def _plan_trouble(self) -> None:
        rng = self._rng("trouble")
        for _ in range(rng.choice((1, 2, 4, 8, 16))):
            at = rng.randrange(*TROUBLE)
            until = min(TROUBLE[1], at + rng.randrange(20 * MS, 5 * SECOND))
            kinds = (
                self._crash, self._crash, self._crash_silently, self._crash_all, self._lose_disk,
                self._pause, self._cut, self._cut, self._cut_off_coordination, self._fill_disk,
                self._crash_coordination,
            )  # fmt: skip
            self._at(at, rng.choice(kinds), (Random(rng.random()), until))

    def _tell(self, text: str, until: int) -> None:
        now = self.simulation.now / 1e9
        self.narrative.append(f"{now:.3f} s: {text} until {until / 1e9:.3f} s")

    def _replica(self, rng: Random) -> SimNode:
        return rng.choice(self.geo.replicas[rng.choice(self.regions)])

    def _name(self, node: SimNode) -> str:
        for region, nodes in self.geo.replicas.items():
            if node in nodes:
                return f"{region}/{nodes.index(node) + 1}"
        return "coordination" if node is self.geo.coordination else str(node.id)

    def _take_down(self, node: SimNode, until: int, **how: bool) -> None:
        if node.alive:
            self._tell(f"crash {self._name(node)} {how}", until)
            self.simulation.crash(node, **how)
            self._at(until, self._restart, (node,))

    def _restart(self, node: SimNode) -> None:
        if not node.alive:
            self.geo.restart(node)

    def _crash(self, rng: Random, until: int) -> None:
        self._take_down(self._replica(rng), until)

    def _crash_silently(self, rng: Random, until: int) -> None:
        self._take_down(self._replica(rng), until, silently=True)

    def _crash_all(self, rng: Random, until: int) -> None:
        for node in self.geo.replicas[rng.choice(self.regions)]:
            self._take_down(node, until)

    def _lose_disk(self, rng: Random, until: int) -> None:
        """Of one replica per region, and only while another is in the chain with it."""
        region = rng.choice(self.regions)
        nodes = self.geo.replicas[region]
        members = [node for node in nodes if place_of(node) is not None and not node.paused]
        epochs = {node.id: proxy_of(node).statistics()["chain_epoch"] for node in members}
        members = [node for node in members if epochs[node.id] == max(epochs.values())]
        if region not in self._diskless and len(members) > 1:
            self._diskless.add(region)
            self._take_down(rng.choice(members), until, lose_disk=True)

    def _crash_coordination(self, rng: Random, until: int) -> None:
        if self.geo.coordination is not None:
            self._take_down(self.geo.coordination, until)

    def _pause(self, rng: Random, until: int) -> None:
        node = self._replica(rng)
        if node.alive:
            self._tell(f"pause {self._name(node)}", until)
            self.simulation.pause(node)
            self._at(until, self.simulation.resume, (node,))

    def _cut(self, rng: Random, until: int) -> None:
        nodes = [node for region in self.regions for node in self.geo.replicas[region]]
        one = rng.choice(nodes)
        others = rng.sample([n for n in nodes if n is not one], rng.randint(1, len(nodes) - 1))
        self._sever(one, others, until, one_way=rng.random() < 0.3)

    def _cut_off_coordination(self, rng: Random, until: int) -> None:
        coordination = self.geo.coordination
        if coordination is not None:
            nodes = [n for region in self.regions for n in self.geo.replicas[region]]
            cut = rng.sample(nodes, rng.randint(1, len(nodes)))
            self._sever(coordination, cut, until, one_way=rng.random() < 0.3)

    def _sever(self, one: SimNode, others: list[SimNode], until: int, *, one_way: bool) -> None:
        names = ", ".join(map(self._name, others))
        self._tell(f"cut {self._name(one)} from {names}{' one way' * one_way}", until)
        ids = {node.id for node in others}

        def is_cut(source: int, target: int) -> bool:
            there = source == one.id and target in ids
            return there or (not one_way and target == one.id and source in ids)

        network = self.simulation.network
        network.cut(is_cut)
        self._at(until, network.mend, (is_cut,))

    def _fill_disk(self, rng: Random, until: int) -> None:
        node = self._replica(rng)
        assert node.disk is not None
        self._tell(f"disk of {self._name(node)} full", until)
        node.disk.fill()
        self._at(until, node.disk.free, ())

    def _at(self, time: int, action: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.simulation.scheduler.at(max(time, self.simulation.now), lambda *_: action(*arguments))

    # -- the run ---------------------------------------------------------------------------------

    def run(self) -> Truth:
        self._populate()
        self._plan_trouble()
        try:
            self._run_until(PUBLISHING_ENDS + SECOND)
            deadline = self.simulation.now + 60 * SECOND
            while self._unfinished() and self.simulation.now < deadline:
                self._run_until(self.simulation.now + SECOND)
            self._check_end()
            self._run_until(self.simulation.now + 3 * SECOND)
            self._check_end()
        except Exception as error:
            story = "\n  ".join(self.narrative)
            error.add_note(f"replay with: {self.replay.format(seed=self.seed)}\n  {story}")
            raise
        return self.truth

    def _run_until(self, time: int) -> None:
        while self.simulation.now < time:
            self.simulation.run_until(min(time, self.simulation.now + 500 * MS))
            check_nodes(self.simulation)

    def _unfinished(self) -> str:
        if self.truth.unanswered:
            return f"unanswered: {sorted(self.truth.unanswered)[:5]}"
        for region in self.regions:
            nodes = self.geo.replicas[region]
            if len(nodes) > 1:
                places = [place_of(node) for node in nodes]
                if None in places or len(set(places)) < len(nodes):
                    return f"the chain of {region} is {places}"
        for name, info in self.geo.streams.items():
            ends = {
                proxy_of(node).progress()[name][0]
                for region in self.regions
                for node in self.geo.replicas[region]
            }
            if len(ends) > 1:
                return f"proxies are at {ends}"
            number = self.streams.index(name) + 1
            end = next(iter(ends))
            for node in self.subscribers:
                if self.truth.places.get((node.id, number), (0, 0))[1] != end.seq:
                    return f"{node.id} is at {self.truth.places.get((node.id, number))}, not {end}"
            assert end.stream == info.id
        return ""

    def _check_end(self) -> None:
        problem = self._unfinished()
        if problem:
            raise Broken(problem)
        for name, info in self.geo.streams.items():
            epoch, end = next(iter(self._ends(name)))
            shown = self.truth.shown.get((info.id, epoch), {})
            payloads = list(shown.values())
            if sorted(shown) != list(range(1, end + 1)) or len(set(payloads)) < len(payloads):
                raise Broken(f"{name}: not everything up to {end} once: {len(shown)} are shown")
            there = set(payloads)
            self._check_acknowledged(name, info.id, there)
            lied = there & self.truth.refused.keys()
            if lied:
                raise Broken(f"{name}: refused and stored: {sorted(lied)[:3]}")
            for node in self.publishers:
                own = [int(p.split(b":")[2]) for p in payloads if p.startswith(b"%d:" % node.id)]
                if own != sorted(own):
                    raise Broken(f"{name}: {node.id} out of order")

    def _check_acknowledged(self, name: str, stream: int, there: set[bytes]) -> None:
        for payload, of in self.truth.acknowledged.items():
            if of == stream and payload not in there:
                raise Broken(f"{name}: acknowledged and lost: {payload!r}")

    def _ends(self, stream: str) -> set[tuple[int, int]]:
        counters = [
            proxy_of(node).progress()[stream][0]
            for region in self.regions
            for node in self.geo.replicas[region]
        ]
        return {(counter.epoch, counter.seq) for counter in counters}


def proxy_of(node: SimNode) -> Any:
    return node.protocol


def place_of(node: SimNode) -> int | None:
    """Where in its chain a replica believes to be."""
    if not node.alive or not isinstance(node.protocol, ReplicaProxy):
        return None
    place = int(node.protocol.statistics()["chain_place"])
    return None if place < 0 else place


if __name__ == "__main__":
    import sys

    first, *rest = map(int, sys.argv[1:])
    for number in range(first, rest[0]) if rest else [first]:
        run = ChainedRun(number)
        truth = run.run()
        drops = run.simulation.drops
        print(number, len(truth.acknowledged), len(truth.refused), drops, flush=True)
        if not rest:
            print("  " + "\n  ".join(run.narrative))
