"""A simulated geoplex: the proxies, agents and publishers that a `geoplex.toml` describes.

The same protocol classes as on the network, wired to simulated disks and links. Node ids, stream
ids and configurations are those of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random

import numpy as np

from epicast.core import EventBatch, NodeId, Peer, Trace
from epicast.core.sampling import derive_seed
from epicast.deployment import Geoplex, node_id_of
from epicast.log import policy_of
from epicast.protocols.sprinkler import (
    Agent,
    AgentConfig,
    Client,
    ClientConfig,
    Proxy,
    ProxyConfig,
    ProxyPlan,
    Sidecar,
    stream_info,
)
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.disk import SimDisk
from epicast.sim.history_disk import HistoryDisk
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
        conditions: Conditions | None = None,
        check_addresses: bool = False,
        trace: Trace | None = None,
    ) -> None:
        """`sync_ns` is what a proxy's disk takes; without `collects` histories keep everything,
        which is faster."""
        self.geoplex = geoplex
        self.regions = list(geoplex.regions)
        self.streams = {name: stream_info(geoplex, s) for name, s in geoplex.streams.items()}
        self.proxies: dict[str, SimNode] = {}
        self.agents: dict[str, list[SimNode]] = {region: [] for region in self.regions}
        self.agent_config = agent_config or geoplex.section("agents", AgentConfig)
        self.proxy_config = proxy_config or geoplex.section("proxies", ProxyConfig)
        self._agent_limits = (agent_bandwidth, agent_service)
        self._proxy_limits = (proxy_bandwidth, proxy_service)
        self._placement = {
            geoplex.region(region).id: site for site, region in enumerate(self.regions)
        }
        self._contacts: dict[NodeId, list[Peer]] = {}
        self.simulation = Simulation(
            seed,
            latency=self._latency(inside_ns, seed),
            conditions=conditions,
            check_addresses=check_addresses,
            trace=trace,
        )
        policies = {info.id: policy_of(info) for info in self.streams.values()}
        for region in self.regions:
            disk = HistoryDisk(sync_ns, policies) if collects else SimDisk(sync_ns)
            self.proxies[region] = self._add_proxy(region, disk)

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
        delays = np.full((len(self.regions),) * 2, inside_ns, dtype=np.int64)
        for row, source in enumerate(self.regions):
            for column, target in enumerate(self.regions):
                if row != column:
                    delays[row, column] = self.geoplex.link(source, target).latency_ns
        return delays

    # -- nodes -----------------------------------------------------------------------------------

    def _add_proxy(self, region: str, disk: SimDisk) -> SimNode:
        identity = self.geoplex.region(region).id
        others = tuple(
            Peer(self.geoplex.region(other).id) for other in self.regions if other != region
        )
        plan = ProxyPlan(region, tuple(self.streams.values()), others)
        factory = partial(_make_proxy, self.proxy_config, plan)
        bandwidth, service = self._proxy_limits
        return self.simulation.add_node(
            factory, node_id=identity, disk=disk, bandwidth=bandwidth, service=service
        )

    def add_agent(self, region: str, name: str = "") -> SimNode:
        name = name or f"{region}/agent-{len(self.agents[region]) + 1}"
        node = self._attach(region, name, partial(_make_agent, self.agent_config))
        self.agents[region].append(node)
        return node

    def add_sidecar(self, region: str, name: str) -> SimNode:
        node = self._attach(region, name, partial(_make_sidecar, self.agent_config))
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
        contacts = self._contacts[identity] = [(at or self.proxies[region]).peer]
        return self.simulation.add_node(
            factory, contacts, node_id=identity, bandwidth=bandwidth, service=service
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


def _make_proxy(config: ProxyConfig, plan: ProxyPlan, node: Peer, rng: Random) -> Proxy:
    return Proxy(node, config, rng, plan=plan)


def _make_agent(config: AgentConfig, node: Peer, rng: Random) -> Agent:
    return Agent(node, config, rng)


def _make_sidecar(config: AgentConfig, node: Peer, rng: Random) -> Sidecar:
    return Sidecar(node, config, rng)


def _make_client(config: ClientConfig, node: Peer, rng: Random) -> Client:
    return Client(node, config, rng)
