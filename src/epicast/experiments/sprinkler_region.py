"""Simulated regions full of agents under an even load: the ground of claims S2, S3 and S4.

The setting of Sprinkler's section 5.2, or with another topology that of 5.3, run by the protocol
classes that run on the network. Inside a region everything is 1 ms away and an agent has 1 Gbps
each way; proxies have 10 Gbps, for everything they send. Chains of replicas are not part of it: a
proxy is one node.

What the paper leaves open, or lost with its figures, is ours:

* Latencies between the regions, `THREE_REGIONS`: two sites on the west coast, one on the east.
* Events come in batches, one per proxy every 20 ms, `BATCH_MS`. Nothing in the protocol looks at
  single events, so a batch costs the simulator what an event would. Bytes are those of our wire
  format, which takes 10 for an event of 10: 864 k events a second and proxy fill 21 % of an agent's
  link, enough for 4.8 neighbours.
* Views are exchanged every 100 ms, for four seconds before the load begins; at first every agent
  knows its proxy only.
* What a message costs a proxy's processor, `PROXY_SERVICE`. Agents need none: at all loads here
  their links are full long before a processor would be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from epicast.core import EventBatch
from epicast.deployment import Geoplex, parse_geoplex
from epicast.experiments.arrivals import Arrivals
from epicast.experiments.overlays import MILLISECOND, SECOND
from epicast.protocols.sprinkler import AgentConfig, ClientConfig, ProxyConfig
from epicast.runtime import Limits
from epicast.sim.bandwidth import Bandwidth
from epicast.sim.geoplex import SimGeoplex
from epicast.sim.network import Conditions
from epicast.sim.node import SimNode
from epicast.sim.service import Service

REGIONS = ("seattle", "california", "virginia")
PAPER_RATE = 864_000
"""Events per second and proxy: a third of what the paper's prototype could do."""
EVENT_BYTES = 10
BATCH_MS = 20.0
VIEW = 20
WARM_UP_NS = 300 * MILLISECOND
"""Of the load; as in the paper, nothing is measured before."""

_GIGABIT = 125_000_000
_QUEUE_BYTES = Limits().data_queue_bytes
"""A real node's, for each of its peers; a simulated one has a single queue for all of them."""
PROXY_SERVICE = Service(per_message_ns=20_000, per_byte_ns=7.0)
"""Rounded from `python -m bench geo` on the machine this was written on, where a proxy is busy for
0.4 s with the 50 MB that come to it in a second."""

_SETTLE_NS = 4 * SECOND
_GOSSIP_NS = 100 * MILLISECOND
_OPENING_NS = 500 * MILLISECOND
_JOINING_NS = SECOND
_AFTERWARDS_NS = 200 * MILLISECOND
_UNLIMITED = 1 << 62


class Topology(Struct, frozen=True):
    regions: tuple[str, ...]
    latencies_ms: Mapping[tuple[str, str], float]
    """One way. Half of what round trips between such places usually take."""

    def geoplex(self) -> Geoplex:
        """As a deployment file would describe it."""
        lines = ['name = "regions"']
        for port, region in enumerate(self.regions, 1):
            lines += [f"[regions.{region}]", f'proxy = "127.0.0.1:{port}"']
            lines += [f"[streams.{region}]", f'owner = "{region}"', 'ack = "memory"']
        for (source, target), latency in self.latencies_ms.items():
            lines += ["[[links]]", f'from = "{source}"', f'to = "{target}"',
                      f'latency = "{latency}ms"']  # fmt: skip
        return parse_geoplex("\n".join(lines), "the geoplex of an experiment")


THREE_REGIONS = Topology(
    REGIONS,
    {("seattle", "california"): 10, ("seattle", "virginia"): 35, ("california", "virginia"): 32},
)


class Setting(Struct, frozen=True, kw_only=True):
    agents: int
    """In each region."""
    fanout: int
    shuffle_ms: float
    rate: float = PAPER_RATE
    """Events per second and proxy."""
    batch_ms: float = BATCH_MS
    """Between two batches of a proxy."""
    measured_ms: float = 500.0
    """Behind the first 300 ms. The load goes on for 200 ms more, so that what is measured arrives
    as it would if it never ended."""
    topology: Topology = THREE_REGIONS
    advertise_ms: float = 100.0
    """Between two advertisements of a proxy to the others."""
    breaks_after_ms: float = 5000.0
    """How long a connection bears with a link that swallows everything."""


class Region:
    """Grown and settled when made; `run` puts the load on it, once."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self.setting = setting
        shuffle_ns = round(setting.shuffle_ms * MILLISECOND)
        common: dict[str, Any] = {
            "view_size": VIEW,
            "fanout": setting.fanout,
            "shuffle_time_ns": shuffle_ns,
            "gossip_every_ns": _GOSSIP_NS,
        }
        advertise_ns = round(setting.advertise_ms * MILLISECOND)
        self.geoplex = SimGeoplex(
            setting.topology.geoplex(),
            seed,
            proxy_config=ProxyConfig(**common, advertise_every_ns=advertise_ns),
            agent_config=AgentConfig(**common),
            proxy_bandwidth=_bandwidth(10, setting.agents),
            agent_bandwidth=_bandwidth(1, VIEW),
            proxy_service=PROXY_SERVICE,
            collects=False,
            conditions=Conditions(break_after_ns=round(setting.breaks_after_ms * MILLISECOND)),
        )
        self._regions = setting.topology.regions
        self.simulation = self.geoplex.simulation
        rows = max(1, round(setting.rate * setting.batch_ms / 1000))
        self.arrivals = Arrivals(
            len(self._regions), len(self._regions) * setting.agents, rows, before=1
        )
        self.simulation.on_topic_delivery = self.arrivals.note
        drivers = ClientConfig(max_unacknowledged_events=_UNLIMITED)
        self._drivers = [
            self.geoplex.add_client(region, f"{region}/driver", drivers) for region in self._regions
        ]
        # An event of each stream, so that its epoch is known everywhere before anybody follows it.
        for region, driver in zip(self._regions, self._drivers, strict=True):
            self._publish(driver, EventBatch.build(self.geoplex.streams[region].id, 1, [b""]))
        for index in range(setting.agents):
            at = _OPENING_NS + index * _JOINING_NS // setting.agents
            self.simulation.scheduler.at(at, self._add_agents)
        self.simulation.run_until(_OPENING_NS + _JOINING_NS + _SETTLE_NS)

    def _add_agents(self, _: None, __: None) -> None:
        for region in self._regions:
            node = self.geoplex.add_agent(region)
            for number, stream in enumerate(self._regions):
                self.geoplex.subscribe(node, number + 1, stream, after=1, window_bytes=_UNLIMITED)

    def run(self) -> None:
        """All the load: before, while and after it is measured."""
        start = self.simulation.now
        measured_ns = round(self.setting.measured_ms * MILLISECOND)
        self.window = start + WARM_UP_NS, start + WARM_UP_NS + measured_ns
        end = self.window[1] + _AFTERWARDS_NS
        self.put_load(start, end)
        self.simulation.run_until(end)

    def put_load(self, start: int, end: int) -> None:
        """It comes as the simulation goes on."""
        batch_ns = round(self.setting.batch_ms * MILLISECOND)
        payloads = [bytes(EVENT_BYTES)] * self.arrivals.rows
        for place, (region, driver) in enumerate(zip(self._regions, self._drivers, strict=True)):
            stream = self.geoplex.streams[region].id
            batch = EventBatch.build(stream, 1, payloads)
            # Proxies do not have their batches at the same instants.
            offset = place * batch_ns // len(self._regions)
            for at in range(start + offset, end, batch_ns):
                self.simulation.scheduler.at(at, self._publish, driver, batch)
                self.arrivals.expect(place, at + MILLISECOND)

    def _publish(self, driver: SimNode, batch: EventBatch) -> None:
        self.geoplex.publish(driver, batch)

    def metrics(self) -> dict[str, float | int]:
        begin, end = self.window
        agents = [node for nodes in self.geoplex.agents.values() for node in nodes]
        statistics = [node.protocol.statistics() for node in agents]
        received = sum(each["received"] for each in statistics)
        return {
            **self.arrivals.metrics(begin, end, self.simulation.now),
            "fallbacks_per_batch": sum(each["fallbacks"] for each in statistics) / received,
            "duplicates_share": sum(each["duplicates"] for each in statistics) / received,
            "view_mean": float(np.mean([each["view"] for each in statistics])),
            "messages": self.simulation.network.sent,
            "broken": self.simulation.drops.get("queue full", 0),
        }


def _bandwidth(gigabits: int, peers: int) -> Bandwidth:
    rate = gigabits * _GIGABIT
    return Bandwidth(rate, rate, queue_bytes=peers * _QUEUE_BYTES)
