"""The workload of `ordered_rounds` in the order that a fixed sequencer gives it.

The sequencer is a proxy of ours with a single stream. Every process is a plain client of it: it
publishes there, and gets what is there in the order of the stream's numbers. The proxy is one node
more, as far from the processes as they are from each other. Its store takes no time, its links have
room for everything, and it spends no time on messages: the delays are those of the way there and
back.

On connections nothing overtakes. If every message draws a latency of its own, each waits for the
slowest of those before it.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epicast.core import EventBatch, NodeId, Peer
from epicast.core.sampling import derive_seed
from epicast.deployment import parse_geoplex
from epicast.experiments.ordered_rounds import (
    PERIOD_TICKS,
    TICK_NS,
    Ints,
    Setting,
    latency_of,
    publications,
)
from epicast.protocols.sprinkler import Client, ClientConfig, Proxy, ProxyConfig, proxy_plan
from epicast.sim.disk import SimDisk
from epicast.sim.node import SimNode
from epicast.sim.simulation import Simulation

_GEOPLEX = parse_geoplex(
    """
    name = "sequencer"
    [regions.sequencer]
    proxy = "127.0.0.1:1"
    data = "data"
    [streams.order]
    owner = "sequencer"
    """,
    "the geoplex of a sequencer",
)
_STREAM = _GEOPLEX.streams["order"].id
_SUBSCRIPTION = 1
_WINDOW_BYTES = 1 << 30
_PERIOD_NS = PERIOD_TICKS * TICK_NS
_SECOND_NS = 1000 * TICK_NS
_MOST_SECONDS = 30
"""To attach everybody, and for the last event to arrive."""


class SequencedSystem:
    """All processes are attached and have subscribed when it is made."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self.setting = setting
        self.simulation = Simulation(seed, latency=latency_of(setting, seed))
        self.simulation.on_topic_delivery = self._on_delivery
        self._rng = Random(derive_seed(seed, "workload"))
        self._places = {identity: at for at, identity in enumerate(range(1, setting.processes + 1))}
        most = int(setting.processes * setting.rate * setting.rounds * 2) + 1000
        self.published_at: Ints = np.zeros(most, dtype=np.int64)
        self.events = 0
        self._arrived: Ints = np.zeros((setting.processes, most), dtype=np.int64)
        self._deliveries = 0
        self._last = [0] * setting.processes
        """Of each process: the number of the last event delivered."""
        self._numbers = [0] * setting.processes
        self.violations = 0
        """Deliveries that do not follow the one before."""
        self.sequencer = self.simulation.add_node(
            _make_proxy, node_id=_GEOPLEX.region("sequencer").id, disk=SimDisk(0)
        )
        self._processes = [self._add(identity) for identity in self._places]
        self._attach()

    def _add(self, identity: NodeId) -> SimNode:
        node = self.simulation.add_node(_make_client, [self.sequencer.peer], identity)
        client = node.protocol
        assert isinstance(client, Client)
        client.subscribe(_SUBSCRIPTION, _STREAM, 0, 0, _WINDOW_BYTES)
        return node

    def _attach(self) -> None:
        for _ in range(_MOST_SECONDS):
            self.simulation.run_for(_SECOND_NS)
            if self.sequencer.protocol.statistics()["subscriptions"] == len(self._processes):
                return
        raise RuntimeError(f"not all processes have subscribed after {_MOST_SECONDS} s")

    def kill_sequencer(self, at: int, for_ns: int) -> None:
        """Its process ends, and is started again with all that it had stored."""
        scheduler = self.simulation.scheduler
        scheduler.at(at, lambda node, _: self.simulation.crash(node), self.sequencer)
        scheduler.at(at + for_ns, lambda node, _: self.simulation.start(node), self.sequencer)

    def run(self) -> None:
        """In rounds of the usual length."""
        setting, simulation = self.setting, self.simulation
        identities = list(self._places)
        for _ in range(setting.rounds):
            begin = simulation.now
            for identity, at in publications(self._rng, identities, setting.rate, _PERIOD_NS):
                simulation.scheduler.at(begin + at, self._publish, simulation.nodes[identity])
            simulation.run_until(begin + _PERIOD_NS)
        latest = simulation.now + _MOST_SECONDS * _SECOND_NS
        while self.missing and simulation.now < latest:
            simulation.run_for(_PERIOD_NS)

    def _publish(self, node: SimNode, _: Any) -> None:
        event, self.events = self.events, self.events + 1
        place = self._places[node.id]
        self._numbers[place] += 1
        self.published_at[event] = self.simulation.now
        payload = event.to_bytes(8, "little")
        batch = EventBatch.build(_STREAM, self._numbers[place], [payload])
        self.simulation.publish(node, batch)

    def _on_delivery(self, now: int, node: NodeId, _: int, batch: EventBatch) -> None:
        place = self._places[node]
        self.violations += batch.first != self._last[place] + 1
        self._last[place] = batch.last
        self._arrived[place, np.frombuffer(batch.data, dtype="<i8")] = now
        self._deliveries += batch.rows

    @property
    def missing(self) -> int:
        """Deliveries owed to a process and not made."""
        return self.events * len(self._processes) - self._deliveries

    def deliveries(self) -> tuple[Ints, Ints]:
        """Of every delivery: which event, and when."""
        arrived: NDArray[np.int64] = self._arrived[:, : self.events]
        places, events = np.nonzero(arrived)
        return events, arrived[places, events]


def _make_proxy(node: Peer, rng: Random) -> Proxy:
    return Proxy(node, ProxyConfig(), rng, plan=proxy_plan(_GEOPLEX, "sequencer"))


def _make_client(node: Peer, rng: Random) -> Client:
    return Client(node, ClientConfig(), rng)
