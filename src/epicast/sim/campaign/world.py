"""A planned geoplex in the simulator: its nodes and disks, and the hand that troubles them.

Everything here knows of one proxy per region in one place only: `replicas`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from msgspec import structs

from epicast.core import EventBatch, EventKind, NodeId, Publication, Trace
from epicast.core.sampling import derive_seed
from epicast.deployment import node_id_of
from epicast.log import History, LogConfig, LogError, gc_payload, policy_of
from epicast.protocols.sprinkler import NoSuchStream, Restarted
from epicast.sim.campaign.applications import Application, Publisher
from epicast.sim.campaign.faults import Weather
from epicast.sim.campaign.oracles import Oracles
from epicast.sim.campaign.plan import MS, Plan, PlannedEdge
from epicast.sim.campaign.truth import Broken, StreamTruth
from epicast.sim.disk import SimDisk
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.log_disk import KeptStream, LogDisk
from epicast.sim.node import SimNode
from epicast.sim.simulation import WALL_OFFSET_NS, Simulation

_UPKEEP_EVERY_NS = 500 * MS
_COMPACTED_AT_A_TIME = 16 << 10
_TRY_AGAIN_NS = 300 * MS


class World:
    def __init__(
        self, plan: Plan, trace: Trace | None = None, judged_by: type[Oracles] = Oracles
    ) -> None:
        self.plan = plan
        self._simulation: Simulation | None = None
        self.slack_bytes = plan.proxy.chunk_bytes
        """By how much deliveries may exceed twice the window: a batch is never cut for it."""
        self._on_files = {region.name: region.on_files for region in plan.regions}
        geoplex = plan.geoplex()
        self._policies = {each.id: policy_of(each) for each in geoplex.streams.values()}
        self._geoplex = geoplex
        self._disk_rng = Random(derive_seed(plan.seed, "disks"))
        self.oracles = judged_by(
            {
                each.id: StreamTruth(
                    each.name,
                    each.owner,
                    self._policies[each.id],
                    synced=each.ack == "disk",
                    on_files=self._on_files[each.owner],
                )
                for each in geoplex.streams.values()
            },
            self._on_files,
        )
        self.oracles.own_publishers = {
            node_id_of(f"{region}/expiry"): region for region in self._on_files
        }
        self.geo = SimGeoplex(
            geoplex,
            plan.seed,
            proxy_config=plan.proxy,
            agent_config=plan.agent,
            proxy_bandwidth=plan.bandwidth,
            agent_bandwidth=plan.bandwidth,
            make_disk=self._make_disk,
            conditions=plan.conditions,
            check_addresses=plan.check_addresses,
            trace=trace,
        )
        self.simulation = self._simulation = self.geo.simulation
        self._edges: dict[str, SimNode] = {}
        self._regions = {edge.name: edge.region for edge in plan.edges}
        self._applications: dict[NodeId, Application] = {}
        self._publishers: dict[NodeId, Publisher] = {}
        self._weather: list[Weather] = []
        self._cuts: list[Callable[[NodeId, NodeId], bool]] = []
        self._observe()
        self._schedule()

    # -- disks -----------------------------------------------------------------------------------

    def _make_disk(self, region: str) -> SimDisk:
        on_files = self._on_files[region]
        streams = {
            each.id: KeptStream(
                policy=self._policies[each.id],
                config=LogConfig(
                    sync=each.ack,
                    sync_interval_ns=each.sync_interval_ns,
                    segment_bytes=self.plan.segment_bytes,
                    window_bytes=self.plan.segment_bytes,
                ),
                owned=each.owner == region,
                on_files=on_files,
            )
            for each in self._geoplex.streams.values()
        }
        rng = Random(self._disk_rng.random())
        disk = LogDisk(self.plan.sync_ns, streams, rng, self._wall_ns)
        disk.on_opened = partial(self._on_opened, region)
        disk.on_stored = partial(self._on_stored, region)
        return disk

    def _wall_ns(self) -> int:
        return WALL_OFFSET_NS + (self._simulation.now if self._simulation is not None else 0)

    def _on_opened(self, region: str, stream: int, history: History) -> None:
        self.oracles.on_opened(region, stream, history)

    def _on_stored(self, region: str, batch: EventBatch) -> None:
        self.slack_bytes = max(self.slack_bytes, self._slack_of(batch))
        self.oracles.on_stored(region, batch)

    def _slack_of(self, batch: EventBatch) -> int:
        return self.plan.proxy.chunk_bytes + 2 * batch.wire_size()

    def disk_of(self, node: SimNode) -> LogDisk:
        assert isinstance(node.disk, LogDisk)
        return node.disk

    def damaged(self, region: str, streams: list[int]) -> None:
        for stream in streams:
            self.oracles.on_damaged(region, stream)

    # -- who is there ----------------------------------------------------------------------------

    def replicas(self, region: str) -> list[SimNode]:
        """The nodes that are the proxy of a region."""
        return [self.geo.proxies[region]]

    def all_replicas(self) -> list[tuple[str, SimNode]]:
        return [(region, node) for region in self._on_files for node in self.replicas(region)]

    def edge_node(self, name: str) -> SimNode | None:
        """None until it has joined."""
        return self._edges.get(name)

    def region_of(self, edge: str) -> str:
        return self._regions[edge]

    def id_of(self, stream: str) -> int:
        return self.geo.streams[stream].id

    def stream_ids(self) -> list[int]:
        return [info.id for info in self.geo.streams.values()]

    def streams_on_files(self, region: str, *, owned: bool | None) -> list[int]:
        if not self._on_files[region]:
            return []
        return [
            info.id
            for info in self.geo.streams.values()
            if owned is None or (info.region == region) == owned
        ]

    # -- the schedule ----------------------------------------------------------------------------

    def at(self, time: int, action: Callable[[], None]) -> None:
        self.simulation.scheduler.at(time, _call, action)

    def _schedule(self) -> None:
        for edge in self.plan.edges:
            self.at(edge.joins_ns, partial(self._join, edge))
        for fault in self.plan.faults:
            self.at(fault.at_ns, partial(fault.strike, self))
        self.at(self.plan.trouble_ends_ns, self.heal)
        self.at(_UPKEEP_EVERY_NS, self._keep_up)

    def _join(self, edge: PlannedEdge) -> None:
        geo = self.geo
        if edge.kind == "agent":
            node = geo.add_agent(edge.region, edge.name)
        elif edge.kind == "sidecar":
            node = geo.add_sidecar(edge.region, edge.name)
        else:
            at = self._edges[edge.at] if edge.at else None
            node = geo.add_client(edge.region, edge.name, self.plan.client, at)
        self._edges[edge.name] = node
        application = self._applications[node.id] = Application(self, edge, node)
        application.start()
        if edge.publishing is not None:
            publisher = Publisher(self, edge.publishing, edge.name, node)
            self._publishers[node.id] = publisher
            publisher.start()

    def _keep_up(self) -> None:
        """What the service does besides the protocol: compaction, syncs that are due, expiry."""
        for region, node in self.all_replicas():
            if not node.alive or node.paused:
                continue
            now = self.simulation.now
            local = now if node.clock is None else node.clock.local(now)
            disk = self.disk_of(node)
            disk.maintain(WALL_OFFSET_NS + local, _COMPACTED_AT_A_TIME)
            for stream, history in disk.histories():
                if disk.streams[stream].owned and history.policy.max_age_ns is not None:
                    self._expire(region, node, stream, history, WALL_OFFSET_NS + local)
        self.at(self.simulation.now + _UPKEEP_EVERY_NS, self._keep_up)

    def _expire(
        self, region: str, node: SimNode, stream: int, history: History, wall_ns: int
    ) -> None:
        try:
            predicate = history.expiry(wall_ns)
        except (LogError, OSError):
            return
        if predicate is not None:
            publisher = node_id_of(f"{region}/expiry")
            first = history.publishers().get(publisher, 0) + 1
            batch = EventBatch.build(
                stream, first, [gc_payload(predicate)], kinds=[int(EventKind.GC)]
            )
            publication = Publication(publisher, first, batch)
            self.simulation.stimulate(node, "on_publish", (publication,))

    # -- what is observed ------------------------------------------------------------------------

    def _observe(self) -> None:
        self.simulation.on_topic_delivery = self._on_delivery
        self.simulation.on_notice = self._on_notice
        self.simulation.on_acknowledge = self._on_acknowledge
        self.simulation.on_refuse = self._on_refuse

    def publish(self, node: SimNode, batch: EventBatch, level: str) -> None:
        self.slack_bytes = max(self.slack_bytes, self._slack_of(batch))
        self.oracles.on_publish(node.id, batch)
        self.geo.publish(node, batch, level)

    def _on_delivery(self, _: int, node: NodeId, number: int, batch: EventBatch) -> None:
        session = self.oracles.on_delivery(node, number, batch)
        self._applications[node].on_delivery(session, number, batch)

    def _on_notice(self, _: int, node: NodeId, number: int, value: object) -> None:
        if isinstance(value, Restarted):
            self.oracles.on_restarted(node, number, value.epoch, value.seq)
            self._applications[node].on_restarted(number)
        elif isinstance(value, NoSuchStream):
            raise Broken(f"{self._applications[node].plan.name}: no stream {value.stream}")

    def _on_acknowledge(self, node: NodeId, publication: Publication, seq: int) -> None:
        self._publishers[node].on_answer(publication.batch)
        self.oracles.on_acknowledge(publication, seq)

    def _on_refuse(self, node: NodeId, publication: Publication, _: str) -> None:
        self._publishers[node].on_answer(publication.batch)
        self.oracles.on_refuse(publication)

    # -- trouble ---------------------------------------------------------------------------------

    def kill(
        self, node: SimNode, until_ns: int, *, silently: bool = False, lose_disk: bool = False
    ) -> None:
        if node.alive:
            self.simulation.crash(node, lose_disk=lose_disk, silently=silently)
            self.at(until_ns, partial(self._start, node))

    def stop(self, node: SimNode, until_ns: int) -> None:
        if node.alive:
            self.simulation.stop(node)
            self.disk_of(node).close()
            self.at(until_ns, partial(self._start, node))

    def _start(self, node: SimNode) -> None:
        if node.alive:
            return
        if node.disk is not None:
            try:
                self.disk_of(node).open()
            except (LogError, OSError):  # it is full: whoever starts processes tries again
                self.at(self.simulation.now + _TRY_AGAIN_NS, partial(self._start, node))
                return
        self.geo.restart(node)
        if node.id in self._applications:
            self._applications[node.id].resume()
        if node.id in self._publishers:
            self._publishers[node.id].resume()

    def pause(self, node: SimNode, until_ns: int) -> None:
        self.simulation.pause(node)
        self.at(until_ns, partial(self.simulation.resume, node))

    def cut(self, ways: set[tuple[NodeId, NodeId]], until_ns: int) -> None:
        def is_cut(source: NodeId, target: NodeId) -> bool:
            return (source, target) in ways

        self._cuts.append(is_cut)
        self.simulation.network.cut(is_cut)
        self.at(until_ns, partial(self._mend, is_cut))

    def _mend(self, cut: Callable[[NodeId, NodeId], bool]) -> None:
        if cut in self._cuts:
            self._cuts.remove(cut)
            self.simulation.network.mend(cut)

    def begin_weather(self, weather: Weather) -> None:
        self._weather.append(weather)
        self._apply_weather()

    def end_weather(self, weather: Weather) -> None:
        if weather in self._weather:
            self._weather.remove(weather)
            self._apply_weather()

    def _apply_weather(self) -> None:
        normal = self.plan.conditions
        worst = {
            name: max(getattr(each, name) for each in (normal, *self._weather))
            for name in ("loss", "duplication", "reordering")
        }
        self.simulation.network.set_conditions(structs.replace(normal, **worst))

    def heal(self) -> None:
        """All faults end on their own; this is for what was started late, or twice."""
        for cut in list(self._cuts):
            self._mend(cut)
        self._weather.clear()
        self._apply_weather()
        for _, node in self.all_replicas():
            self.disk_of(node).free()
        for node in list(self.simulation.nodes.values()):
            self.simulation.resume(node)
            self._start(node)

    def is_draining(self) -> bool:
        """Whether publishing has ended."""
        return self.simulation.now >= self.plan.publishing_ends_ns


def _call(action: Callable[[], None], _: Any) -> None:
    action()
