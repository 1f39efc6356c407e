"""A geoplex under attack: a chain of three replicas, two single proxies, and all kinds of edges.

It is a run of the campaign (`sim/campaign`) without faults: real histories on simulated disks, and
oracles that compare every event stored or delivered with what its owner numbered. The hostile nodes
are real ones, so they are attached, in views and followed; the storm speaks in their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

from epicast.core import AnyMessage, EventBatch, EventKind, Message, NodeId, Publication
from epicast.core.effects import Write
from epicast.deployment import node_id_of
from epicast.deployment.access import Action
from epicast.log import PredicateError, policy_of, split_gc_payload
from epicast.log.predicate.ast import KeyIn, KeyPrefix, SeqBelow
from epicast.log.recent import FilteredBuffer
from epicast.protocols.sprinkler import (
    Agent,
    AgentConfig,
    ClientConfig,
    NoSuchStream,
    Proxy,
    ProxyConfig,
)
from epicast.protocols.sprinkler.messages import Attach, Publish, StreamInfo, Welcome
from epicast.protocols.sprinkler.moving.messages import AcceptLoss, MoveRequest
from epicast.sim.campaign.faults import Move
from epicast.sim.campaign.limits import check_limits
from epicast.sim.campaign.oracles import Oracles
from epicast.sim.campaign.plan import (
    MS,
    SECOND,
    Plan,
    PlannedEdge,
    PlannedLink,
    PlannedRegion,
    PlannedStream,
    Publishing,
    Subscribed,
)
from epicast.sim.campaign.run import CampaignRun
from epicast.sim.campaign.watched import Session
from epicast.sim.campaign.world import World
from epicast.sim.log_disk import LogDisk
from epicast.sim.network import Conditions
from epicast.sim.node import SimNode
from tests.hostile.storm import System, silent

STREAMS = ("orders", "prices", "news")
BUFFER_BYTES = 50_000
_HEARS = tuple(Subscribed(stream, 20_000) for stream in STREAMS)


def _publishing(stream: str, every_ms: int) -> Publishing:
    return Publishing(
        streams=(stream,), batch=3, every_ns=every_ms * MS, from_ns=300 * MS, level="",
        keys=20, size_bytes=40, gc_share=0.05, repeats=True,
    )  # fmt: skip


def _edges() -> tuple[PlannedEdge, ...]:
    return (
        PlannedEdge(name="us/agent", kind="agent", region="us", subscribed=_HEARS),
        PlannedEdge(
            name="us/client", kind="client", region="us", subscribed=_HEARS[:2],
            publishing=_publishing("prices", 70),
        ),
        PlannedEdge(
            name="eu/agent", kind="agent", region="eu", subscribed=_HEARS,
            publishing=_publishing("orders", 50),
        ),
        PlannedEdge(name="eu/sidecar", kind="sidecar", region="eu", subscribed=_HEARS[:1]),
        PlannedEdge(
            name="eu/behind", kind="client", region="eu", at="eu/sidecar", subscribed=_HEARS,
            publishing=_publishing("news", 90),
        ),
        PlannedEdge(name="ap/client", kind="client", region="ap", subscribed=_HEARS),
        PlannedEdge(name="eu/hostile-agent", kind="agent", region="eu", subscribed=_HEARS[:1]),
        PlannedEdge(name="eu/hostile-sidecar", kind="sidecar", region="eu"),
        PlannedEdge(name="eu/hostile-client", kind="client", region="eu"),
        PlannedEdge(name="us/hostile-client", kind="client", region="us"),
        PlannedEdge(name="eu/hostile-behind", kind="client", region="eu", at="eu/sidecar"),
    )  # fmt: skip


EDGES = [edge.name for edge in _edges()]


def plan(seed: int, storm_ns: int) -> Plan:
    """A storm that begins after a second."""
    return Plan(
        seed=seed,
        regions=(
            PlannedRegion(name="us", on_files=True, replicas=3),
            PlannedRegion(name="eu", on_files=True),
            PlannedRegion(name="ap", on_files=True),
        ),
        links=(
            PlannedLink(source="us", target="eu", latency_ms=15),
            PlannedLink(source="us", target="ap", latency_ms=40),
            PlannedLink(source="eu", target="ap", latency_ms=40),
        ),
        streams=(
            PlannedStream(name="orders", owner="us", ack="disk"),
            PlannedStream(name="prices", owner="eu", ack="disk", latest_per_key=True),
            PlannedStream(name="news", owner="us", ack="interval", last_n=300),
        ),
        edges=_edges(),
        proxy=ProxyConfig(window_bytes=200_000, recent_bytes=100_000),
        agent=AgentConfig(
            shuffle_time_ns=100 * MS,
            buffer_bytes=BUFFER_BYTES,
            early_bytes=50_000,
            follow_all=bool(seed % 3),
        ),
        client=ClientConfig(),
        conditions=Conditions(),
        bandwidth=None,
        sync_ns=2 * MS,
        segment_bytes=16 << 10,
        check_addresses=False,
        faults=(Move(at_ns=400 * MS, until_ns=0, stream="prices", to="us"),),
        trouble_ends_ns=SECOND + storm_ns,
        publishing_ends_ns=SECOND + storm_ns + SECOND,
        converges_within_ns=30 * SECOND,
    )


class Judge(Oracles):
    """Oracles that know who cannot be helped: hostile nodes, and those that trust them."""

    excused: Callable[[NodeId], bool]
    trusts_proxies = True
    """Whether the proxies are honest. If one is not, it can make a stream of what it likes."""

    def _check_publications(self, batch: EventBatch) -> None:
        """Hostile nodes may publish: what they like, under names of their own."""
        parts = [run for run in batch.runs if (batch.stream, run.publisher) in self.lanes]
        if len(parts) == len(batch.runs):
            super()._check_publications(batch)

    def on_stored(self, replica: str, batch: EventBatch) -> None:
        if self.trusts_proxies:
            super().on_stored(replica, batch)

    def on_began(
        self, replica: str, stream: int, epoch: int, *, keeps: bool, first: int = 1
    ) -> None:
        if self.trusts_proxies:
            super().on_began(replica, stream, epoch, keeps=keeps, first=first)

    def on_acknowledge(self, publication: Publication, seq: int) -> None:
        if self.trusts_proxies:
            super().on_acknowledge(publication, seq)

    def on_refuse(self, publication: Publication, *, is_sure: bool = True) -> None:
        if self.trusts_proxies:
            super().on_refuse(publication, is_sure=is_sure)

    def on_delivery(self, node: NodeId, number: int, batch: EventBatch) -> Session:
        if not self.excused(node):
            return super().on_delivery(node, number, batch)
        return self._follow(node, number, batch.epoch, batch.last)

    def on_restarted(self, node: NodeId, number: int, epoch: int, seq: int) -> Session:
        if not self.excused(node):
            return super().on_restarted(node, number, epoch, seq)
        return self._follow(node, number, epoch, seq)

    def _follow(self, node: NodeId, number: int, epoch: int, end: int) -> Session:
        session = self.sessions[node, number]
        session.epoch, session.end = epoch, end
        return session


class JudgedRun(CampaignRun):
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan, judged_by=Judge)


class Geoplex(System):
    """A simulated geoplex with honest and hostile nodes.

    Strangers and clients must harm no other node, and agents none that does not get events from
    agents. Without rights, any node may publish under any name and move streams. So half of the
    storms leave these messages out, and in the other half hostile nodes have no rights. GC
    events that the oracles have no model of are left out, too.

    Proxies trust each other, so with a hostile one only this is asked: that all go on, within their
    bounds, and answer.
    """

    weight = 6

    def __init__(self, seed: int, sender: str, messages: int) -> None:
        self._sender = sender
        self._ns = messages * self.pause_ns
        self._run = JudgedRun(plan(seed, self._ns))
        self.world = world = self._run.world
        self.simulation = world.simulation
        self._open = bool(seed % 2)
        """Whether there are no rights."""
        self._stranger = self.simulation.add_node(silent, node_id=node_id_of("stranger"))
        self._on_notice = self.simulation.on_notice
        self.simulation.on_notice = self._note
        judge = world.oracles
        assert isinstance(judge, Judge)
        judge.excused = self._is_excused
        judge.trusts_proxies = sender != "peer"
        self._hostile: list[NodeId] = []
        self._targets: list[SimNode] = []
        self._excused: set[NodeId] = set()
        self._publishers: set[int] = set()

    # -- who is who ------------------------------------------------------------------------------

    def begin(self) -> None:
        world = self.world
        self._run.run_until(1)
        self._equip([*world.all_replicas(), *((name, world.edge_node(name)) for name in EDGES)])
        self._run.run_until(SECOND)
        named = {name: node for name in EDGES if (node := world.edge_node(name)) is not None}
        replicas = dict(world.all_replicas())
        by_sender = {
            "stranger": [self._stranger],
            "client": [node for name, node in named.items() if name.endswith(HOSTILE_CLIENTS)],
            "member": [named["eu/hostile-agent"], named["eu/hostile-sidecar"]],
            "peer": [replicas["ap"], replicas["us/3"]],
        }
        self._hostile = [node.id for node in by_sender[self._sender]]
        nodes = [node for _, node in world.all_replicas()] + list(named.values())
        self._targets = [node for node in nodes if node.id not in self._hostile]
        self._targets += PROXIES_AGAIN * [n for n in self._targets if isinstance(n.protocol, Proxy)]
        self._publishers = {publisher for _, publisher in world.oracles.lanes}
        self._excused = {node.id for name, node in named.items() if "hostile" in name}
        if self._sender == "member":
            self._excused |= {node.id for name, node in named.items() if name in TRUST_AGENTS}
        if self._sender == "peer":
            world._tenures = None  # who owns what is what the hostile one says
        if not self._open and self._sender != "peer":
            for node in nodes:
                if hasattr(node.protocol, "_permit"):
                    node.protocol._permit = partial(refuse, frozenset(self._hostile))

    def _equip(self, nodes: Iterable[tuple[str, SimNode | None]]) -> None:
        """Give protocols what services give them: buffers, and who is an agent."""
        agents = {node_id_of(edge.name) for edge in self.world.plan.edges if edge.kind != "client"}
        for _, node in nodes:
            protocol = node.protocol if node is not None else None
            if node is not None and isinstance(node.disk, LogDisk):
                node.disk.take_failures = partial(no_failures, node.disk.take_failures)  # type: ignore[method-assign]
            if isinstance(protocol, Proxy):
                protocol._is_agent = agents.__contains__
            elif isinstance(protocol, Agent):
                protocol._make_buffer = make_buffer
                protocol._is_agent = agents.__contains__

    def targets(self) -> Sequence[SimNode]:
        return self._targets

    def sources(self) -> Sequence[NodeId]:
        return self._hostile

    def _is_excused(self, node: NodeId) -> bool:
        return self._sender == "peer" or node in self._excused

    def _note(self, now: int, node: NodeId, number: int, value: object) -> None:
        if not (isinstance(value, NoSuchStream) and self._is_excused(node)):
            assert self._on_notice is not None
            self._on_notice(now, node, number, value)

    def wrapped(self, target: SimNode, message: Message, rng: Random) -> AnyMessage | None:
        if self._open and self._sender != "peer":
            if isinstance(message, (MoveRequest, AcceptLoss)):
                return None
            if isinstance(message, Publish) and (
                message.publisher in self._publishers or not is_modelled(message.batch)
            ):
                return None
        return message

    # -- what must hold --------------------------------------------------------------------------

    def look(self) -> None:
        super().look()
        check_limits(self.world)

    def end(self) -> None:
        run = self._run
        run.run_until(run.plan.publishing_ends_ns)
        if self._sender == "peer":
            self._ask_all()
            return
        self._settle()
        run.check_end()

    def _settle(self) -> None:
        oracles, world, run = self.world.oracles, self.world, self._run
        patience = self.simulation.now + run.plan.converges_within_ns
        while behind := [*world.incomplete(), *self._lagging()]:
            assert self.simulation.now < patience, f"not healed: {'; '.join(behind[:5])}"
            run.run_until(self.simulation.now + 500 * MS)
        assert oracles.acknowledged > 0

    def _lagging(self) -> list[str]:
        oracles = self.world.oracles
        kept = oracles.sessions
        oracles.sessions = {at: each for at, each in kept.items() if not self._is_excused(at[0])}
        try:
            return oracles.lagging()
        finally:
            oracles.sessions = kept

    def _ask_all(self) -> None:
        """Check that all proxies and sidecars still answer."""
        heard: set[NodeId] = set()
        record = self.simulation.network.on_send
        assert record is not None

        def on_send(source: NodeId, to: object, message: AnyMessage) -> None:
            record(source, to, message)  # type: ignore[arg-type]
            if to == self._stranger.id and isinstance(message, Welcome):
                heard.add(source)

        self.simulation.network.on_send = on_send
        serving = [node for node in dict.fromkeys(self._targets) if Attach in self.handled(node)]
        assert len(serving) >= 4
        for node in serving:
            attach = Attach(self._stranger.peer, False)
            self.simulation.stimulate(node, "on_messages", self._stranger.id, (attach,))
        self.simulation.run_for(5 * SECOND)
        missing = [node for node in serving if node.id not in heard]
        assert not missing, f"no answer from {missing}"


def is_modelled(batch: EventBatch) -> bool:
    """Whether the oracles' model of garbage collection knows all predicates in it."""
    for event in batch.events():
        if event.kind != EventKind.GC:
            continue
        try:
            predicate, _ = split_gc_payload(event.payload)
        except PredicateError:
            continue  # nobody stores it
        if not isinstance(predicate, (SeqBelow, KeyIn, KeyPrefix)):
            return False
    return True


def no_failures(take: Callable[[], list[tuple[Write, str]]]) -> list[tuple[Write, str]]:
    """Fail if anything could not be stored: disks are sound, so it should not have been taken. Only
    the history itself knows what is too far from the events that it has."""
    failures = take()
    bad = [each for each in failures if "too far from the oldest" not in each[1]]
    assert not bad, f"not stored: {bad}"
    return failures


def make_buffer(info: StreamInfo) -> FilteredBuffer:
    return FilteredBuffer(info.id, BUFFER_BYTES, policy_of(info))


PROXIES_AGAIN = 2
"""By how much more often proxies are attacked than others: they do most."""
HOSTILE_CLIENTS = ("hostile-client", "hostile-behind")
TRUST_AGENTS = ("us/agent", "eu/agent", "eu/sidecar", "eu/behind")


def refuse(
    hostile: frozenset[NodeId], node: NodeId, action: Action, stream: StreamInfo | None
) -> str:
    return "it is hostile" if node in hostile else ""
