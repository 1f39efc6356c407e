"""A simulated geoplex: the proxies, agents and publishers that a `geoplex.toml` describes.

The same protocol classes as on the network, wired to simulated disks and links. Node ids, stream
ids and configurations are those of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

import numpy as np

from epicast.core import COORDINATION_ID, Config, EventBatch, NodeId, Peer, Trace
from epicast.core.sampling import derive_seed
from epicast.deployment import Geoplex, Replica, node_id_of
from epicast.log import GcPolicy, policy_of
from epicast.log.admission import Admission
from epicast.protocols.coordination import CoordinationConfig, CoordinationNode
from epicast.protocols.sprinkler import (
    Agent,
    AgentConfig,
    ChainPlan,
    Client,
    ClientConfig,
    MovableProxy,
    Proxy,
    ProxyConfig,
    ProxyPlan,
    ReplicaProxy,
    Sidecar,
    chain_plan,
    proxy_plan,
    stream_info,
)
from epicast.protocols.sprinkler.moving.messages import MoveRequest
from epicast.protocols.sprinkler.moving.operator import Operator
from epicast.protocols.sprinkler.permits import Permit, permit_all
from epicast.protocols.sprinkler.plans import Witness, nobody
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.disk import SimDisk
from epicast.sim.history_disk import HistoryDisk, history_config
from epicast.sim.network import Conditions
from epicast.sim.node import SimNode
from epicast.sim.service import Service
from epicast.sim.simulation import Simulation
from epicast.sim.wide_area import WideAreaLatency


class SimGeoplex:
    def __init__(
        self,
        geoplex: Geoplex,
        seed: int,
        *,
        inside_ns: int = 1_000_000,
        sync_ns: int = 0,
        proxy_config: ProxyConfig | None = None,
        agent_config: AgentConfig | None = None,
        proxy_bandwidth: Bandwidth | None = None,
        agent_bandwidth: Bandwidth | None = None,
        proxy_service: Service | None = None,
        agent_service: Service | None = None,
        collects: bool = True,
        make_disk: Callable[[str], SimDisk] | None = None,
        conditions: Conditions | None = None,
        check_addresses: bool = False,
        trace: Trace | None = None,
        witness: Witness = nobody,
        permit: Permit = permit_all,
    ) -> None:
        """`sync_ns` is what a proxy's disk takes; without `collects` histories keep everything,
        which is faster. `make_disk` gives a replica, by its name, another disk altogether.
        `witness` is that of all replicas of chains; `permit` that of all proxies and sidecars."""
        self.geoplex = geoplex
        self.regions = list(geoplex.regions)
        self.streams = {name: stream_info(geoplex, s) for name, s in geoplex.streams.items()}
        self.proxies: dict[str, SimNode] = {}
        """By region: its proxy, or the first replica of it."""
        self.replicas: dict[str, list[SimNode]] = {}
        self.coordination: SimNode | None = None
        """Where there are chains."""
        self.agents: dict[str, list[SimNode]] = {region: [] for region in self.regions}
        self.agent_config = agent_config or geoplex.section("agents", AgentConfig)
        self.proxy_config = proxy_config or geoplex.section("proxies", ProxyConfig)
        self._agent_limits = (agent_bandwidth, agent_service)
        self._proxy_limits = (proxy_bandwidth, proxy_service)
        self._placement = {
            replica.id: site
            for site, region in enumerate(self.regions)
            for replica in geoplex.region(region).replicas
        }
        self._placement[COORDINATION_ID] = len(self.regions)
        self._witness = witness
        self._permit = permit
        self._contacts: dict[NodeId, list[Peer]] = {}
        self._operators = 0
        self.simulation = Simulation(
            seed,
            latency=self._latency(inside_ns, seed),
            conditions=conditions,
            check_addresses=check_addresses,
            trace=trace,
        )
        policies = {info.id: policy_of(info) for info in self.streams.values()}
        self._admit = Admission(policies)
        self._make_disk, self._collects = make_disk, collects
        if any(region.is_chain for region in geoplex.regions.values()):
            self.coordination = self.simulation.add_node(
                _make_coordination, node_id=COORDINATION_ID, disk=SimDisk(sync_ns)
            )
        for region in self.regions:
            self.replicas[region] = [
                self._add_proxy(region, replica, self._disk(region, replica, sync_ns, policies))
                for replica in geoplex.region(region).replicas
            ]
            self.proxies[region] = self.replicas[region][0]

    def _latency(self, inside_ns: int, seed: int) -> WideAreaLatency:
        links = {
            (row, column): self.geoplex.link(source, target)
            for row, source in enumerate(self.regions)
            for column, target in enumerate(self.regions)
            if row != column
        }
        special = {
            way: link
            for way, link in links.items()
            if link.loss or link.bandwidth_bytes_per_second is not None
        }
        return WideAreaLatency(
            self._delays(inside_ns), self._placement, special, derive_seed(seed, "wide area")
        )

    def _delays(self, inside_ns: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        # The coordination service is as near to everybody as their own region.
        delays = np.full((len(self.regions) + 1,) * 2, inside_ns, dtype=np.int64)
        for row, source in enumerate(self.regions):
            for column, target in enumerate(self.regions):
                if row != column:
                    delays[row, column] = self.geoplex.link(source, target).latency_ns
        return delays

    def _disk(
        self, region: str, replica: Replica, sync_ns: int, policies: Mapping[int, GcPolicy]
    ) -> SimDisk:
        if self._make_disk is not None:
            return self._make_disk(replica.name)
        if not self._collects:
            return SimDisk(sync_ns)
        is_chain = self.geoplex.region(region).is_chain
        return HistoryDisk(sync_ns, policies, config=history_config(waits_for_release=is_chain))

    # -- nodes -----------------------------------------------------------------------------------

    def _add_proxy(self, region: str, replica: Replica, disk: SimDisk) -> SimNode:
        plan = proxy_plan(self.geoplex, region)
        chain = chain_plan(self.geoplex, region)
        bandwidth, service = self._proxy_limits
        make = partial(
            _make_proxy, self.proxy_config, plan, chain, self._admit, self._permit, self._witness
        )
        return self.simulation.add_node(
            make,
            node_id=replica.id,
            disk=disk,
            bandwidth=bandwidth,
            service=service,
        )

    def add_agent(self, region: str, name: str = "") -> SimNode:
        name = name or f"{region}/agent-{len(self.agents[region]) + 1}"
        node = self._attach(region, name, partial(_make_agent, self.agent_config))
        self.agents[region].append(node)
        return node

    def add_sidecar(self, region: str, name: str) -> SimNode:
        node = self._attach(region, name, partial(_make_sidecar, self.agent_config, self._permit))
        self.agents[region].append(node)
        return node

    def add_client(
        self,
        region: str,
        name: str,
        config: ClientConfig | None = None,
        at: SimNode | None = None,
    ) -> SimNode:
        """A plain client of the region's proxy, or of the sidecar `at`."""
        return self._attach(region, name, partial(_make_client, config or ClientConfig()), at)

    def _attach(
        self,
        region: str,
        name: str,
        factory: partial[Agent] | partial[Sidecar] | partial[Client],
        at: SimNode | None = None,
    ) -> SimNode:
        identity = node_id_of(name)
        self._placement[identity] = self.regions.index(region)
        is_client = factory.func is _make_client
        bandwidth, service = (None, None) if is_client else self._agent_limits
        nodes = [at] if at is not None else self.replicas[region]
        contacts = self._contacts[identity] = [node.peer for node in nodes]
        return self.simulation.add_node(
            factory, contacts, node_id=identity, bandwidth=bandwidth, service=service
        )

    def ask_to_move(self, stream: str, to: str, at: SimNode, *, force: bool = False) -> SimNode:
        """Somebody who asks a proxy to give a stream away, or to take it; the answer is a notice
        of theirs."""
        self._operators += 1
        request = MoveRequest(self.streams[stream].id, to, force)
        identity = node_id_of(f"operator-{self._operators}")
        self._placement[identity] = self._placement[at.id]
        return self.simulation.add_node(
            partial(_make_operator, request), [at.peer], node_id=identity
        )

    def restart(self, node: SimNode) -> None:
        """Start a node that is down again, under the same name at the same place."""
        self.simulation.start(node, self._contacts.get(node.id, ()))

    # -- what applications do --------------------------------------------------------------------

    def subscribe(
        self,
        node: SimNode,
        number: int,
        stream: str,
        *,
        epoch: int = 0,
        after: int = 0,
        window_bytes: int = 4 << 20,
    ) -> None:
        edge = node.protocol
        assert isinstance(edge, (Agent, Client))
        edge.subscribe(number, self.streams[stream].id, epoch, after, window_bytes)
        self.simulation.wake(node)

    def consumed(self, node: SimNode, number: int, seq: int) -> None:
        edge = node.protocol
        assert isinstance(edge, (Agent, Client))
        edge.consumed(number, seq)
        self.simulation.wake(node)

    def publish(self, node: SimNode, batch: EventBatch, level: str = "") -> None:
        self.simulation.publish(node, batch, level=level)

    def proxy(self, region: str) -> Proxy:
        protocol = self.proxies[region].protocol
        assert isinstance(protocol, Proxy)
        return protocol

    def heads(self, region: str) -> Mapping[str, int]:
        """How far a region's proxy is, by stream."""
        return {name: at.seq for name, (at, _) in self.proxy(region).progress().items()}


def _make_proxy(
    config: ProxyConfig, plan: ProxyPlan, chain: ChainPlan | None, admit: Admission, permit: Permit,
    witness: Witness, node: Peer, rng: Random,
) -> Proxy:  # fmt: skip
    if chain is None:
        return MovableProxy(node, config, rng, plan=plan, admit=admit, permit=permit)
    return ReplicaProxy(
        node, config, rng, plan=plan, chain=chain, admit=admit, permit=permit, witness=witness
    )


def _make_coordination(node: Peer, rng: Random) -> CoordinationNode:
    return CoordinationNode(node, CoordinationConfig(), rng)


def _make_operator(request: MoveRequest, node: Peer, rng: Random) -> Operator:
    return Operator(node, Config(), rng, request=request)


def _make_agent(config: AgentConfig, node: Peer, rng: Random) -> Agent:
    return Agent(node, config, rng)


def _make_sidecar(config: AgentConfig, permit: Permit, node: Peer, rng: Random) -> Sidecar:
    return Sidecar(node, config, rng, permit=permit)


def _make_client(config: ClientConfig, node: Peer, rng: Random) -> Client:
    return Client(node, config, rng)
