"""A planned geoplex in the simulator: its nodes and disks, and the hand that troubles them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import Any

from epicast.core import EventBatch, NodeId, Publication, Trace
from epicast.core.effects import BeginEpoch
from epicast.core.sampling import derive_seed
from epicast.deployment import Stream, node_id_of
from epicast.log import History, LogConfig, LogError, policy_of
from epicast.protocols.sprinkler import NoSuchStream, RefusalCode, Restarted
from epicast.protocols.sprinkler.moving.ledger import owned_streams
from epicast.protocols.sprinkler.moving.messages import MoveOutcome, MoveReply
from epicast.sim.campaign.applications import Application, Publisher
from epicast.sim.campaign.chained import ChainedTruth
from epicast.sim.campaign.chains import Chains
from epicast.sim.campaign.faults import COORDINATION
from epicast.sim.campaign.moves import MovedTruth, Tenures, may_own
from epicast.sim.campaign.network import NetworkTrouble
from epicast.sim.campaign.oracles import Oracles
from epicast.sim.campaign.plan import MS, Plan, PlannedEdge
from epicast.sim.campaign.refusing import Rights
from epicast.sim.campaign.retention import RETAINED_SEGMENT_BYTES
from epicast.sim.campaign.truth import Broken, StreamTruth
from epicast.sim.campaign.upkeep import Upkeep
from epicast.sim.disk import SimDisk
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.log_disk import KeptStream, LogDisk
from epicast.sim.node import SimNode
from epicast.sim.simulation import WALL_OFFSET_NS, Simulation

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
        owners = {each.name: each.owner for each in geoplex.streams.values()}
        self._may_own = may_own(plan.faults, owners)
        self._tenures: Tenures | None = None
        self.moved = 0
        """How often a stream was handed over."""
        self._rights = Rights(plan, self._now)
        self._disk_rng = Random(derive_seed(plan.seed, "disks"))
        self._region_of = {
            replica.name: name
            for name, region in geoplex.regions.items()
            for replica in region.replicas
        }
        self.oracles = judged_by(
            {each.id: self._truth_of(each) for each in geoplex.streams.values()},
            self._on_files,
            self._region_of,
            self._listed,
        )
        for stream in plan.streams:
            truth = self.oracles.streams[geoplex.streams[stream.name].id]
            truth.forgets_publishers = stream.retain_bytes is not None
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
            permit=self._rights,
        )
        self.simulation = self._simulation = self.geo.simulation
        self.chains = Chains(self.geo)
        names = {region.id: name for name, region in geoplex.regions.items()}
        self._tenures = Tenures(self.chains, names)
        self._regions_of_nodes = {
            node.id: region for region, nodes in self.geo.replicas.items() for node in nodes
        }
        self._edges: dict[str, SimNode] = {}
        self._regions = {edge.name: edge.region for edge in plan.edges}
        self._applications: dict[NodeId, Application] = {}
        self._publishers: dict[NodeId, Publisher] = {}
        self.network = NetworkTrouble(self.simulation, plan.conditions)
        self._observe()
        self._schedule()

    # -- disks -----------------------------------------------------------------------------------

    def _truth_of(self, stream: Stream) -> StreamTruth:
        named = (stream.name, stream.owner, self._policies[stream.id])
        synced, on_files = stream.ack == "disk", self._on_files[stream.owner]
        if stream.name in self._may_own:
            owner = partial(self._owner_of, stream)
            return MovedTruth(
                stream.name, self._policies[stream.id], owner,
                lambda: self._members(owner()), lambda: self._listed(owner()),
            )  # fmt: skip
        if not self._geoplex.region(stream.owner).is_chain:
            return StreamTruth(*named, synced=synced, on_files=on_files)
        members = partial(self._members, stream.owner)
        listed = partial(self._listed, stream.owner)
        return ChainedTruth(
            *named, synced=synced, on_files=on_files, members=members, listed=listed
        )

    def _owner_of(self, stream: Stream) -> str:
        if self._tenures is None:
            return stream.owner  # nobody has moved anything yet
        return self._tenures.owner_of(stream.id, stream.owner)

    def _listed(self, region: str) -> list[str]:
        return self.chains.listed(region)

    def _members(self, region: str) -> list[str]:
        return self.chains.members(region)

    def _make_disk(self, replica: str) -> SimDisk:
        region = self._region_of[replica]
        on_files, is_chain = self._on_files[region], self._geoplex.region(region).is_chain
        # As `geo.plans` does: compaction stays behind by more than replicas can be.
        lag = 2 + self.plan.proxy.max_unstable_bytes // self.plan.segment_bytes if is_chain else 0
        retained = {stream.name: stream.retain_bytes for stream in self.plan.streams}

        def segment_bytes(stream: str) -> int:
            return RETAINED_SEGMENT_BYTES if retained[stream] else self.plan.segment_bytes

        streams = {
            each.id: KeptStream(
                policy=self._policies[each.id],
                config=LogConfig(
                    sync=each.ack,
                    sync_interval_ns=each.sync_interval_ns,
                    segment_bytes=segment_bytes(each.name),
                    window_bytes=segment_bytes(each.name),
                    retain_bytes=retained[each.name],
                    names_publishers=is_chain,
                    compact_lag_segments=lag,
                    waits_for_release=is_chain,
                ),
                on_files=on_files,
            )
            for each in self._geoplex.streams.values()
        }
        rng = Random(self._disk_rng.random())
        declared = {s.id: self._geoplex.region(s.owner).id for s in self._geoplex.streams.values()}
        mine = self._geoplex.region(region).id

        def owned(saved: Mapping[str, bytes]) -> frozenset[int]:
            # In a chain, who is the head decides on the epoch.
            return frozenset() if is_chain else owned_streams(saved, mine, declared)

        disk = LogDisk(self.plan.sync_ns, streams, rng, self._wall_ns, owned)
        disk.on_opened = partial(self._on_opened, replica)
        disk.on_stored = partial(self._on_stored, replica)
        disk.on_began = partial(self._on_began, replica)
        return disk

    def _now(self) -> int:
        return self._simulation.now if self._simulation is not None else 0

    def _wall_ns(self) -> int:
        return WALL_OFFSET_NS + self._now()

    def _on_opened(self, replica: str, stream: int, history: History) -> None:
        self.oracles.on_opened(replica, stream, history)

    def _on_stored(self, replica: str, batch: EventBatch) -> None:
        self.slack_bytes = max(self.slack_bytes, self._slack_of(batch))
        self.oracles.on_stored(replica, batch)

    def _on_began(self, replica: str, began: BeginEpoch) -> None:
        self.oracles.on_began(
            replica, began.stream, began.epoch, keeps=began.keeps, first=began.first
        )

    def _slack_of(self, batch: EventBatch) -> int:
        return self.plan.proxy.chunk_bytes + 2 * batch.wire_size()

    def disk_of(self, node: SimNode) -> LogDisk:
        assert isinstance(node.disk, LogDisk)
        return node.disk

    def damaged(self, node: SimNode, streams: Iterable[int]) -> None:
        for stream in streams:
            self.oracles.on_damaged(self.chains.name_of(node), stream)

    # -- who is there ----------------------------------------------------------------------------

    def replicas(self, region: str) -> list[SimNode]:
        """The nodes that are the proxy of a region."""
        return self.geo.replicas[region]

    def all_replicas(self) -> list[tuple[str, SimNode]]:
        """With their names."""
        return list(self.chains.replicas.items())

    def node_named(self, name: str) -> SimNode | None:
        """A replica, or the coordination service, if there is one."""
        return self.geo.coordination if name == COORDINATION else self.chains.replicas[name]

    def edge_node(self, name: str) -> SimNode | None:
        """None until it has joined."""
        return self._edges.get(name)

    def region_of(self, edge: str) -> str:
        return self._regions[edge]

    def id_of(self, stream: str) -> int:
        return self.geo.streams[stream].id

    def stream_ids(self) -> list[int]:
        return [info.id for info in self.geo.streams.values()]

    def owns(self, region: str, stream: int) -> bool:
        """Now, or, if the stream is moved, at any time."""
        truth = self.oracles.streams[stream]
        return region in self._may_own.get(truth.name, {truth.region})

    def moves_concern(self, region: str) -> bool:
        return any(region in regions for regions in self._may_own.values())

    def streams_on_files(self, region: str, *, owned: bool | None) -> list[int]:
        if not self._on_files[region]:
            return []
        return [
            info.id
            for info in self.geo.streams.values()
            if owned is None or self.owns(region, info.id) == owned
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
        Upkeep(self).start()

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

    # -- what is observed ------------------------------------------------------------------------

    def _observe(self) -> None:
        self.simulation.on_topic_delivery = self._on_delivery
        self.simulation.on_notice = self._on_notice
        self.simulation.on_acknowledge = self._on_acknowledge
        self.simulation.on_refuse = self._on_refuse

    def publish(
        self, node: SimNode, batch: EventBatch, level: str, *, is_sound: bool = True
    ) -> None:
        self.slack_bytes = max(self.slack_bytes, self._slack_of(batch))
        self.oracles.on_publish(node.id, batch, is_sound=is_sound)
        self.geo.publish(node, batch, level)

    def _on_delivery(self, _: int, node: NodeId, number: int, batch: EventBatch) -> None:
        session = self.oracles.on_delivery(node, number, batch)
        self._applications[node].on_delivery(session, number, batch)

    def _on_notice(self, _: int, node: NodeId, number: int, value: object) -> None:
        if isinstance(value, Restarted):
            self.oracles.on_restarted(node, number, value.epoch, value.seq)
            self._applications[node].on_restarted(number)
        elif isinstance(value, MoveReply):
            self.moved += value.outcome is MoveOutcome.DONE
        elif isinstance(value, NoSuchStream):
            raise Broken(f"{self._applications[node].plan.name}: no stream {value.stream}")

    def _on_acknowledge(self, node: NodeId, publication: Publication, seq: int) -> None:
        self._publishers[node].on_answer(publication.batch)
        self.oracles.on_acknowledge(publication, seq)

    def _on_refuse(self, node: NodeId, publication: Publication, error: str) -> None:
        if publication.publisher in self.oracles.own_publishers:
            return  # an owner that numbers nothing yet: it will say again what has expired
        self._publishers[node].on_refusal(publication.batch)
        truth = self.oracles.streams.get(publication.batch.stream)
        is_sure = not error.startswith(RefusalCode.FORBIDDEN.name) or (
            truth is not None and self._rights.never(node, truth.name)
        )
        self.oracles.on_refuse(publication, is_sure=is_sure)

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
            if isinstance(node.disk, LogDisk):
                node.disk.close()
            self.at(until_ns, partial(self._start, node))

    def _start(self, node: SimNode) -> None:
        if node.alive:
            return
        if node.id in self._regions_of_nodes and self.chains.must_wait(
            self._regions_of_nodes[node.id], node
        ):
            self.at(self.simulation.now + _TRY_AGAIN_NS, partial(self._start, node))
            return
        if isinstance(node.disk, LogDisk):
            try:
                node.disk.open()
            except (LogError, OSError):  # it is full: whoever starts processes tries again
                self.at(self.simulation.now + _TRY_AGAIN_NS, partial(self._start, node))
                return
        self.geo.restart(node)
        if node.id in self._applications:
            self._applications[node.id].resume()
        if node.id in self._publishers:
            self._publishers[node.id].resume()

    def move(self, stream: str, to: str) -> None:
        """Ask whoever owns a stream to hand it over."""
        owner = self.oracles.streams[self.id_of(stream)].region
        node = self.chains.head(owner)
        if owner != to and node is not None:
            self.geo.ask_to_move(stream, to, node)

    def pause(self, node: SimNode, until_ns: int) -> None:
        self.simulation.pause(node)
        self.at(until_ns, partial(self.simulation.resume, node))

    def heal(self) -> None:
        """All faults end on their own; this is for what was started late, or twice."""
        self.network.heal()
        for _, node in self.all_replicas():
            self.disk_of(node).free()
        for node in list(self.simulation.nodes.values()):
            self.simulation.resume(node)
            self._start(node)

    def incomplete(self) -> list[str]:
        """Chains that some of their replicas are not in, or do not know of that everybody has
        everything: they still keep what will be collected then."""
        outside = [
            f"the chain of {region} is {self.chains.members(region)}"
            for region in self._on_files
            if self.chains.is_chain(region) and not self.chains.is_complete(region)
        ]
        waiting = [
            f"{replica} does not know that all of {self.oracles.streams[stream].name} may be shown"
            for replica, node in self.all_replicas()
            for stream, history in self.disk_of(node).histories()
            if history.is_waiting
        ]
        return outside + waiting


def _call(action: Callable[[], None], _: Any) -> None:
    action()
