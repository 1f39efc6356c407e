"""A geoplex in the simulator with applications at its edges, all of it audited."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from epicast.core import EventBatch, NodeId, Publication, Trace
from epicast.deployment import parse_geoplex
from epicast.log import LogConfig, policy_of
from epicast.protocols.sprinkler import (
    AgentConfig,
    ClientConfig,
    NoSuchStream,
    ProxyConfig,
    Restarted,
)
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.checkers import check_nodes
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.history_disk import HistoryDisk
from epicast.sim.network import Conditions
from epicast.sim.node import SimNode
from tests.protocols.sprinkler.auditor import Auditor, Broken, Session

MS = 1_000_000
SECOND = 1000 * MS


class Application:
    """Takes what is delivered on its subscriptions, at its own pace."""

    def __init__(self, world: World, node: SimNode, delay_ns: int) -> None:
        self.world = world
        self.node = node
        self.delay_ns = delay_ns
        self.unconsumed: dict[int, int] = {}
        self.stalled = False
        self._taken: dict[int, tuple[int, int]] = {}
        """By subscription: what was delivered while it stalled."""

    def subscribe(self, number: int, stream: str, window: int) -> Session:
        name = f"{self.world.name_of(self.node)}#{number}"
        session = Session(name, self.world.geo.streams[stream].id, window)
        self.world.auditor.sessions[self.node.id, number] = session
        self._subscribe(number, session)
        return session

    def resume(self) -> None:
        """The node was restarted: go on behind the watermarks."""
        self.unconsumed.clear()
        self._taken.clear()
        for (node, number), session in self.world.auditor.sessions.items():
            if node == self.node.id:
                self._subscribe(number, session)

    def _subscribe(self, number: int, session: Session) -> None:
        epoch, after = session.watermark
        stream = self.world.stream_names[session.stream]
        self.world.geo.subscribe(
            self.node, number, stream, epoch=epoch, after=after, window_bytes=session.window
        )

    def on_delivery(self, session: Session, number: int, batch: EventBatch) -> None:
        size = batch.wire_size()
        before = self.unconsumed.get(number, 0)
        if before > 2 * session.window + self.world.slack:
            raise Broken(f"{session.name}: {before} bytes wait, the window is {session.window}")
        self.unconsumed[number] = before + size
        if self.stalled:
            self._taken[number] = (batch.last, self._taken.get(number, (0, 0))[1] + size)
        elif self.delay_ns:
            scheduler = self.world.simulation.scheduler
            arguments = (number, batch.last, size, self.node.incarnation, session.epoch)
            scheduler.at(scheduler.now + self.delay_ns, self._consume_later, arguments)
        else:
            self._consume(number, batch.last, size)

    def stall(self, stalled: bool) -> None:
        self.stalled = stalled
        if not stalled:
            taken, self._taken = self._taken, {}
            for number, (last, size) in taken.items():
                self._consume(number, last, size)

    def on_restarted(self, number: int) -> None:
        self.unconsumed[number] = 0
        self._taken.pop(number, None)

    def _consume_later(self, arguments: tuple[int, int, int, int, int], _: Any) -> None:
        number, last, size, incarnation, epoch = arguments
        session = self.world.auditor.sessions[self.node.id, number]
        if self.node.alive and self.node.incarnation == incarnation and session.epoch == epoch:
            self._consume(number, last, size)

    def _consume(self, number: int, last: int, size: int) -> None:
        self.unconsumed[number] -= size
        self.world.geo.consumed(self.node, number, last)


class World:
    def __init__(
        self,
        text: str,
        seed: int,
        *,
        proxy: ProxyConfig | None = None,
        agent: AgentConfig | None = None,
        client: ClientConfig | None = None,
        sync_ns: int = 0,
        conditions: Conditions | None = None,
        bandwidth: Bandwidth | None = None,
        log: LogConfig | None = None,
        trace: Trace | None = None,
    ) -> None:
        geoplex = parse_geoplex(text, "test")
        policies = {each.id: policy_of(each) for each in geoplex.streams.values()}
        self.geo = SimGeoplex(
            geoplex, seed, proxy_config=proxy, agent_config=agent, proxy_bandwidth=bandwidth,
            agent_bandwidth=bandwidth, conditions=conditions, check_addresses=True, trace=trace,
            make_disk=lambda _: HistoryDisk(sync_ns, policies, config=log),
        )  # fmt: skip
        self.simulation = self.geo.simulation
        self.client_config = client or ClientConfig()
        self.stream_names = {info.id: name for name, info in self.geo.streams.items()}
        self.auditor = Auditor(policies)
        self.applications: dict[NodeId, Application] = {}
        self.slack = self.geo.proxy_config.chunk_bytes
        """By how much deliveries may exceed twice the window."""
        self._published: dict[tuple[NodeId, str], int] = {}
        self._names: dict[NodeId, str] = {}
        for region, node in self.geo.proxies.items():
            assert isinstance(node.disk, HistoryDisk)
            node.disk.on_stored = self._teller(node.id)
            self._names[node.id] = region
        self.simulation.on_topic_delivery = self._on_delivery
        self.simulation.on_notice = self._on_notice
        self.simulation.on_acknowledge = self._on_acknowledge
        self.simulation.on_refuse = lambda _, publication, error: self.auditor.on_refuse(
            publication, error
        )

    def name_of(self, node: SimNode) -> str:
        return self._names[node.id]

    def owner_of(self, stream: int) -> NodeId:
        return self.geo.streams[self.stream_names[stream]].owner

    def _teller(self, node: NodeId) -> Callable[[EventBatch], None]:
        return lambda batch: self.auditor.on_stored(
            self.owner_of(batch.stream) == node, node, batch
        )

    # -- nodes -----------------------------------------------------------------------------------

    def agent(self, region: str, name: str, delay_ns: int = 0) -> Application:
        return self._application(self.geo.add_agent(region, name), name, delay_ns)

    def sidecar(self, region: str, name: str, delay_ns: int = 0) -> Application:
        return self._application(self.geo.add_sidecar(region, name), name, delay_ns)

    def client(
        self, region: str, name: str, delay_ns: int = 0, at: SimNode | None = None
    ) -> Application:
        node = self.geo.add_client(region, name, self.client_config, at)
        return self._application(node, name, delay_ns)

    def _application(self, node: SimNode, name: str, delay_ns: int) -> Application:
        self._names[node.id] = name
        application = self.applications[node.id] = Application(self, node, delay_ns)
        return application

    def crash(self, node: SimNode, *, lose_disk: bool = False, silently: bool = False) -> None:
        if not node.alive:
            return
        self.simulation.crash(node, lose_disk=lose_disk, silently=silently)
        if lose_disk:
            owned = [s for s in self.stream_names if self.owner_of(s) == node.id]
            self.auditor.on_disk_lost(node.id, owned)

    def restart(self, node: SimNode) -> None:
        if not node.alive:
            self.geo.restart(node)
            if node.id in self.applications:
                self.applications[node.id].resume()

    # -- publishing ------------------------------------------------------------------------------

    def publish(
        self,
        node: SimNode,
        stream: str,
        keys: list[bytes],
        *,
        level: str = "",
        size: int = 0,
        kinds: list[int] | None = None,
        head: bytes = b"",
    ) -> None:
        """Events with payloads that tell where they come from; `head` goes in front of each."""
        if not node.alive:
            return
        count = self._published.get((node.id, stream), 0)
        self._published[node.id, stream] = count + len(keys)
        name = self.name_of(node)
        payloads = [
            (head + f"{name}:{stream}:{count + i + 1}".encode()).ljust(size, b".")
            for i in range(len(keys))
        ]
        batch = EventBatch.build(
            self.geo.streams[stream].id, count + 1, payloads, keys=keys, kinds=kinds
        )
        self.slack = max(self.slack, self.geo.proxy_config.chunk_bytes + 2 * batch.wire_size())
        self.auditor.on_published(batch)
        self.geo.publish(node, batch, level)

    # -- what is observed ------------------------------------------------------------------------

    def _on_delivery(self, _: int, node: NodeId, number: int, batch: EventBatch) -> None:
        session = self.auditor.on_delivery(node, number, batch)
        self.applications[node].on_delivery(session, number, batch)

    def _on_notice(self, _: int, node: NodeId, number: int, value: object) -> None:
        if isinstance(value, Restarted):
            self.auditor.on_restarted(node, number, value.epoch, value.seq)
            self.applications[node].on_restarted(number)
        elif isinstance(value, NoSuchStream):
            raise Broken(f"{self._names[node]}: no stream {value.stream}")

    def _on_acknowledge(self, node: NodeId, publication: Publication, seq: int) -> None:
        owner = self.owner_of(publication.batch.stream)
        self.auditor.on_acknowledge(node, publication, seq, owner)

    # -- running ---------------------------------------------------------------------------------

    def run(self, duration_ns: int, step_ns: int = 500 * MS) -> None:
        end = self.simulation.now + duration_ns
        while self.simulation.now < end:
            self.simulation.run_until(min(end, self.simulation.now + step_ns))
            check_nodes(self.simulation)

    def drain(self, most_ns: int = 60 * SECOND) -> None:
        """Until everybody has everything, then a while longer: nothing more may come."""
        end = self.simulation.now + most_ns
        while self.simulation.now < end and self.auditor.lagging():
            self.run(SECOND)
        self.auditor.check_end()
        self.run(2 * SECOND)
        self.auditor.check_end()


def keys_of(rng: Random, count: int, different: int) -> list[bytes]:
    """Some keys are far more frequent than others; none at all if `different` is 0."""
    if not different:
        return [b""] * count
    return [b"k%d" % int(different * rng.random() ** 3) for _ in range(count)]
